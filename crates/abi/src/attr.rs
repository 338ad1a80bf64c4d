//! `struct perf_event_attr` in every size it has had.

use crate::{AttrFlags, BranchSampleType, ByteOrder, ReadFormat, SampleType};

/// The published sizes of `perf_event_attr`, in bytes.
pub mod attr_size {
    /// Linux 2.6.31.
    pub const VER0: u32 = 64;
    /// Adds `config2`.
    pub const VER1: u32 = 72;
    /// Adds `branch_sample_type`.
    pub const VER2: u32 = 80;
    /// Adds `sample_regs_user`, `sample_stack_user`, `clockid`.
    pub const VER3: u32 = 96;
    /// Adds `sample_regs_intr`.
    pub const VER4: u32 = 104;
    /// Adds `aux_watermark`, `sample_max_stack`.
    pub const VER5: u32 = 112;
    /// Adds `aux_sample_size`, `aux_action`.
    pub const VER6: u32 = 120;
    /// Adds `sig_data`.
    pub const VER7: u32 = 128;
    /// Adds `config3`.
    pub const VER8: u32 = 136;
    /// Adds `config4`.
    pub const VER9: u32 = 144;
}

/// What is counted or sampled, and how: `perf_event_attr`.
///
/// | offset | size | field | offset | size | field |
/// |---:|---:|---|---:|---:|---|
/// | 0 | 4 | type (`kind`) | 72 | 8 | branch_sample_type |
/// | 4 | 4 | size | 80 | 8 | sample_regs_user |
/// | 8 | 8 | config | 88 | 4 | sample_stack_user |
/// | 16 | 8 | sample_period or sample_freq | 92 | 4 | clockid |
/// | 24 | 8 | sample_type | 96 | 8 | sample_regs_intr |
/// | 32 | 8 | read_format | 104 | 4 | aux_watermark |
/// | 40 | 8 | flags | 108 | 2+2 | sample_max_stack, reserved |
/// | 48 | 4 | wakeup_events or _watermark | 112 | 4+4 | aux_sample_size, aux_action |
/// | 52 | 4 | bp_type | 120 | 8 | sig_data |
/// | 56 | 8 | config1 (bp_addr) | 128 | 8 | config3 |
/// | 64 | 8 | config2 (bp_len) | 136 | 8 | config4 |
///
/// Source: perf_event_open(2) and the kernel's UAPI header.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EventAttr {
    /// `type`: 0 hardware, 1 software, 2 tracepoint, 3 cache, 4 raw,
    /// 5 breakpoint, 6 and up a PMU of sysfs.
    pub kind: u32,
    /// `size` as found, in bytes; 0 means [`attr_size::VER0`]. Encoding
    /// writes the size really used, see [`EventAttr::encode`].
    pub size: u32,
    /// What exactly, by `kind`.
    pub config: u64,
    /// Period in events, or frequency in Hz if [`AttrFlags::FREQ`].
    pub sample_period: u64,
    /// What samples carry.
    pub sample_type: SampleType,
    /// Layout of counter values.
    pub read_format: ReadFormat,
    /// The flag word.
    pub flags: AttrFlags,
    /// Wake up after this many samples, or bytes if [`AttrFlags::WATERMARK`].
    pub wakeup: u32,
    /// Breakpoint type bits: 1 read, 2 write, 4 execute.
    pub bp_type: u32,
    /// `config1`, also breakpoint address, probe name or path.
    pub config1: u64,
    /// `config2`, also breakpoint length or probe offset.
    pub config2: u64,
    /// Which branches.
    pub branch_sample_type: BranchSampleType,
    /// Mask of user registers in samples.
    pub sample_regs_user: u64,
    /// Bytes of user stack in samples.
    pub sample_stack_user: u32,
    /// Clock of the times, if [`AttrFlags::USE_CLOCKID`].
    pub clockid: i32,
    /// Mask of interrupt registers in samples.
    pub sample_regs_intr: u64,
    /// AUX wake-up, bytes.
    pub aux_watermark: u32,
    /// Longest call chain, frames.
    pub sample_max_stack: u16,
    /// Reserved field behind `sample_max_stack`; kept as found.
    pub reserved_2: u16,
    /// Bytes of AUX data in samples.
    pub aux_sample_size: u32,
    /// Bits: 0 start paused, 1 pause, 2 resume.
    pub aux_action: u32,
    /// Passed to the signal of [`AttrFlags::SIGTRAP`].
    pub sig_data: u64,
    /// More configuration.
    pub config3: u64,
    /// More configuration.
    pub config4: u64,
    /// Bytes behind the last field known here, as found.
    pub tail: Vec<u8>,
}

/// The flag word of a big-endian file has its bit-fields from the other end
/// of each byte. Its own inverse.
fn reverse_bits_in_bytes(bytes: [u8; 8]) -> [u8; 8] {
    bytes.map(u8::reverse_bits)
}

impl EventAttr {
    /// The two bits of `precise_ip`, 0 to 3.
    pub fn precise_ip(&self) -> u8 {
        (self.flags.0 >> 15 & 3) as u8
    }

    /// Makes them this level, of which the lowest two bits count.
    pub fn set_precise_ip(&mut self, level: u8) {
        self.flags.0 = self.flags.0 & !(3 << 15) | u64::from(level & 3) << 15;
    }

    /// Whether `sample_period` is a frequency in Hz.
    pub fn is_freq(&self) -> bool {
        self.flags.has(AttrFlags::FREQ)
    }

    /// Reads an attr of any size; what is missing is 0, what is new goes to
    /// `tail`. The bytes are those reserved for it in the file: if the size
    /// field says less, the rest is ignored; if it says more, what is there
    /// counts. `None` below 64 bytes.
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let size = order.u32(bytes, 4)?;
        let said = if size == 0 { attr_size::VER0 } else { size };
        if said < attr_size::VER0 {
            return None;
        }
        let bytes = bytes.get(..bytes.len().min(said as usize))?;
        if bytes.len() < attr_size::VER0 as usize {
            return None;
        }
        let flags = bytes.get(40..48)?.try_into().ok()?;
        let flags = match order {
            ByteOrder::Little => u64::from_le_bytes(flags),
            ByteOrder::Big => u64::from_le_bytes(reverse_bits_in_bytes(flags)),
        };
        let u16_at = |at| order.u16(bytes, at).unwrap_or(0);
        let u32_at = |at| order.u32(bytes, at).unwrap_or(0);
        let u64_at = |at| order.u64(bytes, at).unwrap_or(0);
        Some(Self {
            kind: u32_at(0),
            size,
            config: u64_at(8),
            sample_period: u64_at(16),
            sample_type: SampleType(u64_at(24)),
            read_format: ReadFormat(u64_at(32)),
            flags: AttrFlags(flags),
            wakeup: u32_at(48),
            bp_type: u32_at(52),
            config1: u64_at(56),
            config2: u64_at(64),
            branch_sample_type: BranchSampleType(u64_at(72)),
            sample_regs_user: u64_at(80),
            sample_stack_user: u32_at(88),
            clockid: u32_at(92) as i32,
            sample_regs_intr: u64_at(96),
            aux_watermark: u32_at(104),
            sample_max_stack: u16_at(108),
            reserved_2: u16_at(110),
            aux_sample_size: u32_at(112),
            aux_action: u32_at(116),
            sig_data: u64_at(120),
            config3: u64_at(128),
            config4: u64_at(136),
            tail: bytes
                .get(attr_size::VER9 as usize..)
                .unwrap_or_default()
                .to_vec(),
        })
    }

    /// The smallest published size that holds every field that is not 0, in
    /// bytes; what a writer should use, because older tools refuse sizes
    /// above their own.
    pub fn smallest_size(&self) -> u32 {
        if !self.tail.is_empty() {
            return attr_size::VER9 + self.tail.len() as u32;
        }
        let needs = [
            (self.config4 != 0, attr_size::VER9),
            (self.config3 != 0, attr_size::VER8),
            (self.sig_data != 0, attr_size::VER7),
            (
                self.aux_sample_size != 0 || self.aux_action != 0,
                attr_size::VER6,
            ),
            (
                self.aux_watermark != 0 || self.sample_max_stack != 0 || self.reserved_2 != 0,
                attr_size::VER5,
            ),
            (self.sample_regs_intr != 0, attr_size::VER4),
            (
                self.sample_regs_user != 0 || self.sample_stack_user != 0 || self.clockid != 0,
                attr_size::VER3,
            ),
            (self.branch_sample_type.0 != 0, attr_size::VER2),
            (self.config2 != 0, attr_size::VER1),
        ];
        needs
            .iter()
            .find(|(needed, _)| *needed)
            .map_or(attr_size::VER0, |&(_, size)| size)
    }

    /// Its bytes: `size` of them if set and large enough for what is in use,
    /// else [`EventAttr::smallest_size`]. A `size` of 0 stays 0 in the field
    /// when 64 bytes hold everything.
    pub fn encode(&self, order: ByteOrder) -> Vec<u8> {
        let smallest = self.smallest_size();
        let size = if self.size >= smallest {
            self.size
        } else {
            smallest
        };
        let said = if self.size == 0 && smallest == attr_size::VER0 {
            0
        } else {
            size
        };
        let mut out = Vec::with_capacity(attr_size::VER9 as usize + self.tail.len());
        let u64s = |out: &mut Vec<u8>, value: u64| out.extend(order.bytes_u64(value));
        out.extend(order.bytes_u32(self.kind));
        out.extend(order.bytes_u32(said));
        u64s(&mut out, self.config);
        u64s(&mut out, self.sample_period);
        u64s(&mut out, self.sample_type.0);
        u64s(&mut out, self.read_format.0);
        out.extend(match order {
            ByteOrder::Little => self.flags.0.to_le_bytes(),
            ByteOrder::Big => reverse_bits_in_bytes(self.flags.0.to_le_bytes()),
        });
        out.extend(order.bytes_u32(self.wakeup));
        out.extend(order.bytes_u32(self.bp_type));
        u64s(&mut out, self.config1);
        u64s(&mut out, self.config2);
        u64s(&mut out, self.branch_sample_type.0);
        u64s(&mut out, self.sample_regs_user);
        out.extend(order.bytes_u32(self.sample_stack_user));
        out.extend(order.bytes_u32(self.clockid as u32));
        u64s(&mut out, self.sample_regs_intr);
        out.extend(order.bytes_u32(self.aux_watermark));
        out.extend(order.bytes_u16(self.sample_max_stack));
        out.extend(order.bytes_u16(self.reserved_2));
        out.extend(order.bytes_u32(self.aux_sample_size));
        out.extend(order.bytes_u32(self.aux_action));
        u64s(&mut out, self.sig_data);
        u64s(&mut out, self.config3);
        u64s(&mut out, self.config4);
        out.extend(&self.tail);
        // Never longer than what we hold plus zeros that a newer size asked for.
        out.resize(
            size.min(attr_size::VER9 + self.tail.len() as u32)
                .max(smallest) as usize,
            0,
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{EventAttr, attr_size};
    use crate::{AttrFlags, ByteOrder, SampleType};

    fn sampled() -> EventAttr {
        EventAttr {
            kind: 1,
            size: attr_size::VER5,
            config: 0,
            sample_period: 999,
            sample_type: SampleType::IP | SampleType::TID,
            flags: AttrFlags::FREQ | AttrFlags::DISABLED,
            sample_max_stack: 127,
            ..EventAttr::default()
        }
    }

    #[test]
    fn both_byte_orders_round_trip_and_flags_change_ends() {
        // covers unit: ATTR-07, ATTR-81
        let attr = sampled();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = attr.encode(order);
            assert_eq!(bytes.len(), 112);
            assert_eq!(EventAttr::decode(&bytes, order), Some(attr.clone()));
        }
        // `disabled` is the lowest bit of the word, the first of its byte.
        assert_eq!(attr.encode(ByteOrder::Big)[40], 0x80);
        assert_eq!(attr.encode(ByteOrder::Little)[40], 0x01);
    }

    #[test]
    fn a_longer_attr_keeps_its_tail_and_a_shorter_one_reads_zeros() {
        // covers unit: ATTR-02, ATTR-11, ATTR-12
        let mut bytes = sampled().encode(ByteOrder::Little);
        bytes.resize(144, 0);
        bytes.extend([9; 8]);
        bytes[4] = 152;
        let attr = EventAttr::decode(&bytes, ByteOrder::Little).expect("152 bytes");
        assert_eq!(attr.tail, [9; 8]);
        assert_eq!(attr.encode(ByteOrder::Little), bytes);
        assert_eq!(EventAttr::decode(&bytes[..63], ByteOrder::Little), None);
        let short = EventAttr::decode(&bytes[..64], ByteOrder::Little).expect("64 bytes");
        assert_eq!(short.sample_max_stack, 0);
    }
}
