//! What arrives in a ring, and what of each sample has room in it.

use crate::options::{LEAST_COPIED, MOST_DUMP};
use crate::planned::{Planned, Role};
use crate::waits;
use prof_abi::{EventAttr, SampleType};

/// Ring size where nothing speaks for another, bytes: what every user may lock
/// for each CPU.
const PLAIN_RING: u64 = 512 << 10;
/// The most bytes of rings unless asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Of each ring.
    each: u64,
    /// Of all rings together, about.
    all: u64,
    /// The same by the address space that is left.
    room: u64,
}

impl Most {
    /// For a command or for tasks.
    pub(crate) const OF_TARGET: Self = Self {
        each: 8 << 20,
        all: 64 << 20,
        room: u64::MAX,
    };
    /// For all that runs: with dozens of busy processes for each CPU, the
    /// thread that empties the rings waits for its turn for longer than a
    /// smaller ring lasts.
    pub(crate) const OF_SYSTEM: Self = Self {
        each: 32 << 20,
        all: 128 << 20,
        room: u64::MAX,
    };

    /// The same where pieces of stacks would be smaller than [`LEAST_COPIED`] in rings
    /// of that size, since samples are many a second: as large as those need, up to what
    /// recording all that runs may have.
    pub(crate) fn for_pieces(self, planned: &[Planned]) -> Self {
        let piece = |it: &Planned| it.attr.sample_stack_user.min(LEAST_COPIED);
        let a_second = |it: &Planned| rate(it).saturating_mul(piece(it).into());
        let at_rate = planned.iter().filter(|it| it.attr.is_freq());
        let needed = at_rate.map(a_second).fold(0, u64::saturating_add) / PIECES_PER_SECOND;
        if needed <= self.each {
            return self;
        }
        let most = Self::OF_SYSTEM;
        Self {
            each: needed.min(most.each).next_power_of_two().max(self.each),
            all: most.all.max(self.all),
            room: self.room,
        }
    }

    /// What each of so many rings may have, a power of two.
    fn share(self, rings: u64) -> u64 {
        let all = self.all.min(self.room);
        (all / rings.max(1)).max(1).next_power_of_two() / 2
    }

    /// The same where so many bytes of address space are left (`ulimit -v`):
    /// stacks, tables and buffers need more of them than rings do.
    pub(crate) fn within(self, left: Option<u64>) -> Self {
        Self {
            room: left.map_or(self.room, |left| left / 4),
            ..self
        }
    }
}
/// Samples a second for each CPU of an event that samples every so many
/// events.
const ASSUMED_RATE: u64 = 10_000;
/// The same of the event of waits: few programs wait more often, and where one
/// does, pieces get shorter while they are drained.
const SWITCHES: u64 = 2000;
/// A ring has room for the samples of a second divided by this, if stacks can
/// be copied in smaller pieces: the thread that empties rings rarely comes later. Beside
/// 20 and 40 busy processes on 2 CPUs no sample of 64 KiB was lost so. Without the piece
/// what a sample lacks is read late, and of a program that came elsewhere meanwhile all
/// stacks are cut.
const ROOM_PER_SECOND: u64 = 32;
/// The same of pieces of up to [`LEAST_COPIED`] bytes, without which stacks of most
/// programs are cut: half as long is enough (none lost of 90 000, the same load); of
/// a 128th 1 in 130 was lost.
const LEAST_ROOM_PER_SECOND: u64 = 64;
/// The same of what is sampled by events, which may come all at once.
const BURST_ROOM_PER_SECOND: u64 = 8;
/// Where samples are many, rings get so large that pieces of [`LEAST_COPIED`] bytes have
/// room for a second divided by this.
const PIECES_PER_SECOND: u64 = 8;
/// The least bytes of stack in a sample, where the ring is large enough.
const LEAST_PIECE: u64 = 4096;
/// So many of the largest samples have room at least.
const LEAST_SAMPLES: u64 = 4;

/// Samples a second of one CPU, Hz.
fn rate(planned: &Planned) -> u64 {
    match (planned.role, planned.attr.sample_period) {
        (Role::Tracks, _) | (_, 0) => 0,
        (_, hz) if planned.attr.is_freq() => hz,
        _ if waits::is_of_waits(&planned.name) => SWITCHES,
        _ => ASSUMED_RATE,
    }
}

/// Bytes of a sample, about.
fn sample_bytes(attr: &EventAttr) -> u64 {
    let parts = [
        (SampleType::CALLCHAIN, 448),
        (SampleType::BRANCH_STACK, 768),
        (SampleType::STACK_USER, u64::from(attr.sample_stack_user)),
    ];
    let has = |&(bit, _): &(SampleType, u64)| attr.sample_type.has(bit);
    64 + parts
        .iter()
        .filter(|part| has(part))
        .map(|part| part.1)
        .sum::<u64>()
}

/// Bytes that each of so many rings should have: a power of two that holds
/// what arrives in half a second, within bounds.
pub(crate) fn wanted_bytes(planned: &[Planned], rings: u64, most: Most) -> u64 {
    let a_second = planned.iter().fold(0_u64, |sum, planned| {
        sum.saturating_add(rate(planned).saturating_mul(sample_bytes(&planned.attr)))
    });
    (a_second / 2)
        .min(most.each)
        .next_power_of_two()
        .min(most.share(rings))
        .clamp(PLAIN_RING, most.each)
}

/// Bytes that each of so many rings may have at the most, a power of two.
pub(crate) fn most_bytes(rings: u64, most: Most) -> u64 {
    most.share(rings).clamp(PLAIN_RING, most.each)
}

/// The bytes of a user stack that a sample can carry when something stands
/// behind it; `u32::MAX` where nothing does. The kernel makes the stack as
/// small as what stands before it needs, but forgets the registers of the
/// interrupted code and the AUX data behind it (perf_sample_ustack_size in
/// kernel/events/core.c, seen in 6.18): the sizes of records have 16 bits, and
/// a larger sum wraps, so that not one sample can be read.
fn room_in_record(attr: &EventAttr) -> u32 {
    /// What stands before it: a chain of some 1000 frames, registers, a
    /// tracepoint's payload, counters.
    const BEFORE: u32 = 16 << 10;
    let registers = attr
        .sample_type
        .has(SampleType::REGS_INTR)
        .then(|| 8 + 8 * attr.sample_regs_intr.count_ones());
    let trace = attr
        .sample_type
        .has(SampleType::AUX)
        .then(|| attr.aux_sample_size.saturating_add(8));
    if registers.is_none() && trace.is_none() {
        return u32::MAX;
    }
    let behind = registers.unwrap_or(0).saturating_add(trace.unwrap_or(0));
    (MOST_DUMP - BEFORE).saturating_sub(behind) & !7
}

/// Makes pieces of user stacks as small as records, and rings of `bytes`, need
/// it. Where
/// `by_rate`, a ring also holds the samples of an eighth of a second, or of a 32nd if
/// pieces would be small: more frames can be had otherwise then, but not lost samples.
/// Returns given and wanted bytes of the piece that lost most.
pub(crate) fn fit_pieces(planned: &mut [Planned], bytes: u64, by_rate: bool) -> Option<(u32, u32)> {
    let has_piece = |planned: &Planned| planned.attr.sample_type.has(SampleType::STACK_USER);
    let hz: u64 = planned
        .iter()
        .filter(|planned| has_piece(planned))
        .map(|planned| rate(planned).min(ASSUMED_RATE))
        .sum();
    let mut most = bytes / LEAST_SAMPLES;
    if by_rate {
        let mut sampling = planned.iter().filter(|it| has_piece(it));
        let of_rate = |room: u64| bytes.saturating_mul(room) / hz.max(1);
        let least = of_rate(LEAST_ROOM_PER_SECOND).min(LEAST_COPIED.into());
        let of_rate = match sampling.all(|it| it.attr.is_freq()) {
            true => of_rate(ROOM_PER_SECOND).max(least),
            false => of_rate(BURST_ROOM_PER_SECOND),
        };
        most = most.min(of_rate.max(LEAST_PIECE));
    }
    let most = u32::try_from(most & !7).unwrap_or(u32::MAX);
    let mut shrunk: Option<(u32, u32)> = None;
    for event in planned.iter_mut().filter(|planned| has_piece(planned)) {
        let wanted = event
            .attr
            .sample_stack_user
            .min(room_in_record(&event.attr));
        event.attr.sample_stack_user = wanted;
        if wanted > most {
            event.attr.sample_stack_user = most;
            shrunk = shrunk.max(Some((most, wanted)));
        }
    }
    shrunk
}

#[cfg(test)]
mod tests {
    use super::{Most, fit_pieces, wanted_bytes};
    use crate::options::{Options, Sampling, Stacks, Target};
    use crate::output::Destination;
    use crate::plan::{default_events, plan};
    use crate::planned::{Limits, Planned};
    use prof_abi::SampleType;

    fn planned(sampling: Sampling, stacks: Stacks, events: usize) -> Vec<Planned> {
        let mut options = Options::new(Target::System, Destination::Stdout);
        options.sampling = sampling;
        options.stacks = stacks;
        let limits = Limits {
            whole_cpus: crate::planned::OnCpus::Never,
            may_choose: true,
            highest_frequency: 100_000,
            cpus: 2,
        };
        let specs = vec![default_events("cpu-clock").remove(0); events];
        plan(&options, &specs, limits)
    }

    #[test]
    fn rings_grow_with_rate_samples_and_events_and_stay_within_bounds() {
        use Sampling::{Frequency, HighestFrequency, Period};
        use Stacks::{Dump, FramePointers, None, Unwound};
        let cases = [
            (Frequency(999), None, 1, 512 << 10),
            (Frequency(49_999), FramePointers, 1, 8 << 20),
            (Frequency(999), FramePointers, 1, 512 << 10),
            (Frequency(2999), FramePointers, 1, 1 << 20),
            (Frequency(2999), FramePointers, 3, 4 << 20),
            (Frequency(99), Unwound(65_528), 1, 4 << 20),
            (Frequency(999), Unwound(65_528), 1, 8 << 20),
            (Frequency(99), Dump(8192), 1, 512 << 10),
            (HighestFrequency, None, 1, 4 << 20),
            (Period(1000), FramePointers, 1, 4 << 20),
        ];
        for (sampling, stacks, events, expected) in cases {
            let planned = planned(sampling, stacks, events);
            let wanted = wanted_bytes(&planned, 2, Most::OF_TARGET);
            assert_eq!(wanted, expected, "{sampling:?} {stacks:?} {events}");
        }
        // Where samples are many, pieces of stacks need more.
        let of_events = |events, hz, rings, most: Most| {
            let sampling = Frequency(hz);
            let planned = planned(sampling, Stacks::auto(sampling), events);
            wanted_bytes(&planned, rings, most.for_pieces(&planned))
        };
        let with_pieces = |hz, rings, most| of_events(1, hz, rings, most);
        let target = Most::OF_TARGET;
        assert_eq!(with_pieces(999, 2, target), 8 << 20);
        assert_eq!(with_pieces(4000, 2, target), 8 << 20);
        assert_eq!(with_pieces(10_000, 2, target), 16 << 20);
        assert_eq!(with_pieces(49_999, 2, target), 32 << 20);
        assert_eq!(with_pieces(10_000, 16, target), 4 << 20);
        assert_eq!(of_events(3, 999, 2, target), 8 << 20);
        assert_eq!(of_events(3, 4000, 2, target), 32 << 20);
        assert_eq!(
            with_pieces(10_000, 2, target.within(Some(48 << 20))),
            4 << 20
        );
        assert_eq!(with_pieces(10_000, 2, Most::OF_SYSTEM), 32 << 20);
        let many = planned(Frequency(49_999), FramePointers, 1);
        assert_eq!(wanted_bytes(&many, 1024, Most::OF_TARGET), 512 << 10);
        // Half a second of the largest samples, where all is recorded.
        let deep = planned(Frequency(999), Unwound(65_528), 1);
        assert_eq!(wanted_bytes(&deep, 2, Most::OF_SYSTEM), 32 << 20);
        assert_eq!(wanted_bytes(&deep, 32, Most::OF_SYSTEM), 2 << 20);
        let little = |left| wanted_bytes(&deep, 2, Most::OF_SYSTEM.within(left));
        assert_eq!(little(Option::None), 32 << 20);
        assert_eq!(little(Some(48 << 20)), 4 << 20);
        assert_eq!(little(Some(0)), 512 << 10);
    }

    #[test]
    fn a_stack_leaves_room_for_what_stands_behind_it() {
        let mut planned = planned(Sampling::Frequency(99), Stacks::Dump(65_528), 1);
        let attr = &mut planned[0].attr;
        attr.sample_type = attr.sample_type.with(SampleType::REGS_INTR);
        attr.sample_regs_intr = 0x81;
        fit_pieces(&mut planned, 8 << 20, true);
        assert_eq!(planned[0].attr.sample_stack_user, 65_528 - 16_384 - 24);
        let attr = &mut planned[0].attr;
        attr.sample_type = attr.sample_type.with(SampleType::AUX);
        attr.aux_sample_size = u32::MAX;
        fit_pieces(&mut planned, 8 << 20, true);
        assert_eq!(planned[0].attr.sample_stack_user, 0);
    }

    #[test]
    fn stacks_are_copied_as_far_as_rings_have_room() {
        let sampled = |sampling, stacks, ring, by_rate| {
            let mut planned = planned(sampling, stacks, 1);
            let shrunk = fit_pieces(&mut planned, ring, by_rate);
            let given = planned[0].attr.sample_stack_user;
            assert_eq!(shrunk.is_some(), Some(given) != stacks.dump_bytes());
            (shrunk.is_none_or(|(told, _)| told == given)).then_some(given)
        };
        let piece =
            |hz, stacks, ring, by_rate| sampled(Sampling::Frequency(hz), stacks, ring, by_rate);
        let auto = Stacks::Unwound(65_528);
        let dump = Stacks::Dump(65_528);
        // A ring of full size has room for all that is copied at that rate.
        assert_eq!(piece(999, auto, 8 << 20, true), Some(65_528));
        assert_eq!(
            piece(4000, Stacks::Unwound(16_500 & !7), 8 << 20, true),
            Some(16_496)
        );
        assert_eq!(piece(99, auto, 4 << 20, true), Some(65_528));
        let fast = Stacks::auto(Sampling::Frequency(10_000));
        assert_eq!(piece(10_000, fast, 16 << 20, true), Some(13_312));
        // What is copied of a 32nd of a second.
        assert_eq!(piece(999, auto, 2 << 20, true), Some(65_528));
        assert_eq!(piece(999, auto, 1 << 20, true), Some(33_584));
        // And of a 64th, where that is little.
        assert_eq!(piece(999, auto, 256 << 10, true), Some(13_312));
        assert_eq!(piece(999, auto, 128 << 10, true), Some(8392));
        assert_eq!(
            piece(4000, Stacks::Unwound(16_496), 512 << 10, true),
            Some(8384)
        );
        assert_eq!(piece(10_000, fast, 4 << 20, true), Some(13_312));
        assert_eq!(piece(10_000, fast, 1 << 20, true), Some(6704));
        assert_eq!(piece(10_000, fast, 512 << 10, true), Some(4096));
        // Events come in bursts.
        let events = Sampling::Period(1);
        assert_eq!(
            sampled(events, Stacks::auto(events), 8 << 20, true),
            Some(6600)
        );
        assert_eq!(
            sampled(events, Stacks::auto(events), 2 << 20, true),
            Some(4096)
        );
        // A dump that was asked for is cut only where no ring could hold it.
        assert_eq!(piece(999, dump, 256 << 10, false), Some(65_528));
        assert_eq!(piece(999, dump, 64 << 10, false), Some(16_384));
        // Down to the smallest ring.
        assert_eq!(piece(999, auto, 4096, true), Some(1024));
        assert_eq!(piece(999, Stacks::Unwound(512), 4096, true), Some(512));
    }
}
