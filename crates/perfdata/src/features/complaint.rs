//! What is wrong with a section that can be read in part: what is whole is
//! kept, and the rest is told.

use super::{Feature, Text};
use crate::body::leads_elsewhere;
use crate::fields::Fields;
use crate::tracepoint::TracingData;
use prof_abi::{BuildId, ByteOrder, Misc};

/// The first thing that is wrong with a section that was read as `content`.
pub(super) fn of(content: &Feature, bytes: &[u8], order: ByteOrder) -> Option<String> {
    match content {
        Feature::TracingData(formats) => tracing_data(formats),
        Feature::BuildIds(list) => {
            let paths = list.iter().map(|entry| &entry.path);
            build_ids(bytes, order).or_else(|| leading_up(paths))
        }
        _ => None,
    }
}

fn tracing_data(bytes: &[u8]) -> Option<String> {
    let formats = match TracingData::parse(bytes) {
        Ok(formats) => formats,
        Err(why) => return Some(why.to_string()),
    };
    let unreadable = formats.unreadable;
    let unread = || format!("{unreadable} of its formats cannot be read");
    let cut = formats.cut.map(|why| why.to_string());
    cut.or_else(|| (unreadable > 0).then(unread))
}

/// Bytes of a build-id record before its name.
const FIXED: u16 = 36;
/// Where it has the size of the build-id.
const SIZE_AT: usize = 32;

/// Walks the records as far as they can be told apart.
fn build_ids(bytes: &[u8], order: ByteOrder) -> Option<String> {
    let mut fields = Fields::new(bytes, order);
    while fields.left() > 0 {
        let at = bytes.len() - fields.left();
        let rest = bytes.get(at..).unwrap_or_default();
        let size = order.u16(rest, 6).unwrap_or(0);
        if size < FIXED {
            // Some writers pad the section.
            let is_padding = rest.iter().all(|&byte| byte == 0);
            let why = || format!("what stands at byte {at} is no build-id record");
            return (!is_padding).then(why);
        }
        let misc = Misc(order.u16(rest, 4).unwrap_or(0));
        let own = rest.get(SIZE_AT).copied().map_or(0, usize::from);
        if misc.has(Misc::BUILD_ID_SIZE) && !(1..=BuildId::RECORDED_MAX).contains(&own) {
            return Some(format!(
                "the record at byte {at} says its build-id has {own} bytes; it has room for 1 to 20"
            ));
        }
        fields.take(usize::from(size)).ok()?;
    }
    None
}

fn leading_up<'a>(mut paths: impl Iterator<Item = &'a Text>) -> Option<String> {
    let path = paths.find(|path| leads_elsewhere(path.as_bytes()))?;
    let len = path.as_bytes().len();
    Some(format!("a path of {len} bytes has a part `..`"))
}

#[cfg(test)]
mod tests {
    use crate::features::{FeatureBit, Features};
    use crate::section::Section;
    use prof_abi::{ByteOrder, Misc};

    fn record(misc: Misc, size: u8, path: &[u8]) -> Vec<u8> {
        let path_len = (path.len() + 1).next_multiple_of(64);
        let mut record = 67_u32.to_le_bytes().to_vec();
        record.extend(misc.0.to_le_bytes());
        record.extend((36 + path_len as u16).to_le_bytes());
        record.extend((-1_i32).to_le_bytes());
        record.extend([7; 20]);
        record.extend([size, 0, 0, 0]);
        record.extend(path);
        record.resize(36 + path_len, 0);
        record
    }

    /// What is told of a section, and how many build-ids are kept.
    fn told(bytes: &[u8]) -> (Option<String>, usize) {
        let mut features = Features::default();
        let place = Section::default();
        let result = features.add(FeatureBit::BUILD_ID, place, bytes, ByteOrder::Little);
        (result.err(), features.build_ids().map_or(0, <[_]>::len))
    }

    #[test]
    fn build_ids_that_cannot_be_are_told_and_the_others_kept() {
        let sized = Misc::BUILD_ID_SIZE;
        let sound = [record(sized, 20, b"/bin/a"), record(Misc(0), 0, b"/bin/b")].concat();
        assert_eq!(told(&sound), (None, 2));
        assert_eq!(told(&[&sound[..], &[0; 24]].concat()), (None, 2), "padded");
        for (wound, why, kept) in [
            (record(sized, 0, b"/bin/c"), "has 0 bytes", 3),
            (record(sized, 255, b"/bin/c"), "has 255 bytes", 3),
            (record(sized, 20, b"/a/../etc/c"), "has a part `..`", 3),
            (vec![1; 36], "at byte 200 is no build-id record", 2),
        ] {
            let mut wound = wound;
            if kept == 2 {
                wound[6..8].fill(0); // the size of the record
            }
            let (told, count) = told(&[&sound[..], &wound].concat());
            let told = told.unwrap_or_default();
            assert!(told.contains(why), "{told}");
            assert_eq!(count, kept, "{told}");
        }
    }

    #[test]
    fn garbage_in_place_of_tracepoint_formats_is_told() {
        let mut features = Features::default();
        let place = Section::default();
        let bit = FeatureBit::TRACING_DATA;
        for garbage in [
            b"".as_slice(),
            b"garbage",
            b"\x17\x08\x44tracing0.6\0\0\x08",
        ] {
            let result = features.add(bit, place, garbage, ByteOrder::Little);
            assert!(result.is_err(), "{garbage:?}");
        }
    }
}
