//! What to give up, step by step, when the first descriptor of an event is
//! refused.

use super::features::{OPTIONAL, Optional, without_optional};
use crate::events::{self, Precision};
use crate::planned::Planned;
use crate::waits;
use prof_abi::{AttrFlags, EventAttr, SampleType};
use prof_sys::OpenError;

/// An event that was opened with as much as this kernel has of what was planned.
#[derive(Debug)]
pub(crate) struct Opened<T> {
    pub(crate) event: T,
    /// What it is now.
    pub(crate) planned: Planned,
    /// What is missing, for the user.
    pub(crate) notices: Vec<String>,
}

impl<T> Opened<T> {
    fn new(event: T, planned: Planned, notices: Vec<String>) -> Self {
        Self {
            event,
            planned,
            notices,
        }
    }
}

/// Opens the event as it was planned or, where that is refused, as near to it
/// as possible: in user space only, if the kernel is hidden and that may be, and
/// without the kernel's part of call chains;
/// less precise; without what this kernel does not know. Of the latter only
/// what really is refused is left out.
///
/// The error is that of what was planned, but for what this kernel does not know.
pub(crate) fn open_best<T>(
    planned: &Planned,
    mut open: impl FnMut(&EventAttr) -> Result<T, OpenError>,
) -> Result<Opened<T>, OpenError> {
    let mut planned = planned.clone();
    let mut notices = Vec::new();
    let mut first_error = None;
    let mut precise = 3 * u8::from(planned.precision == Precision::Highest);
    loop {
        set_precise(&mut planned, precise);
        let mut errno = match open(&planned.attr) {
            Ok(event) => return Ok(Opened::new(event, planned, notices)),
            Err(error) => {
                let errno = error.errno();
                first_error.get_or_insert(error);
                errno
            }
        };
        if is_unknown(errno) {
            match open_older(&planned.attr, &mut open) {
                Some(Ok((event, attr))) => {
                    notices.extend(losses(&planned, &attr));
                    planned.attr = attr;
                    return Ok(Opened::new(event, planned, notices));
                }
                // A kernel looks at what it does not know before it looks for
                // the event and for rights.
                Some(Err(error)) if !is_unknown(error.errno()) => {
                    errno = error.errno();
                    first_error = Some(error);
                }
                _ => {}
            }
        }
        if matches!(errno, libc::EACCES | libc::EPERM) {
            if planned.may_drop_kernel {
                notices.push(narrow(&mut planned));
                first_error = None;
                continue;
            }
            if drop_kernel_chain(&mut planned.attr) {
                continue;
            }
        }
        let may_be_precision = matches!(errno, libc::EOPNOTSUPP | libc::EINVAL | libc::ENOENT);
        if !may_be_precision || precise == 0 {
            // The first refusal is about what was asked for.
            return Err(first_error.take().expect("one was just kept"));
        }
        precise -= 1;
    }
}

/// Whether it says that the machine has no such event.
pub(crate) fn is_lacking(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)
}

/// Whether something that this kernel does not know may be why.
fn is_unknown(errno: i32) -> bool {
    matches!(errno, libc::EINVAL | libc::E2BIG)
}

/// Leaves the kernel out, and says so.
fn narrow(planned: &mut Planned) -> String {
    if waits::is_of_waits(&planned.name) {
        return waits::dropped_kernel(planned);
    }
    let flags = &mut planned.attr.flags;
    *flags = flags.with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    let name = planned.name.clone();
    planned.name = events::narrowed(&name);
    planned.may_drop_kernel = false;
    format!(
        "{name}: user space only, since the kernel is not for this user to see \
         (kernel.perf_event_paranoid); prof doctor says what would change that"
    )
}

/// Leaves the kernel out of the call chains of an event of user space; false where
/// they have none of it. Linux 7.2 refuses such chains to users for whom the kernel
/// is hidden; they were empty before.
fn drop_kernel_chain(attr: &mut EventAttr) -> bool {
    let may_have_it = attr.sample_type.has(SampleType::CALLCHAIN)
        && attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
        && !attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
    if may_have_it {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
    }
    may_have_it
}

/// Opens `attr` without what this kernel does not know; `None` if it holds nothing
/// that may be left out, an error if that is not why it was refused. What the
/// kernel does know is put back one by one.
fn open_older<T>(
    attr: &EventAttr,
    open: &mut impl FnMut(&EventAttr) -> Result<T, OpenError>,
) -> Option<Result<(T, EventAttr), OpenError>> {
    let bare = without_optional(attr);
    if bare == *attr {
        return None;
    }
    let mut event = match open(&bare) {
        Ok(event) => event,
        Err(error) => return Some(Err(error)),
    };
    let mut kept = vec![false; OPTIONAL.len()];
    let mut best = bare;
    for place in 0..OPTIONAL.len() {
        kept[place] = true;
        let mut candidate = attr.clone();
        for (feature, _) in OPTIONAL.iter().zip(&kept).filter(|(_, kept)| !**kept) {
            feature.take_out(&mut candidate);
        }
        if candidate == best {
            continue;
        }
        match open(&candidate) {
            Ok(fuller) => (event, best) = (fuller, candidate),
            Err(_) => kept[place] = false,
        }
    }
    Some(Ok((event, best)))
}

/// What users should know of what is missing.
fn losses(planned: &Planned, attr: &EventAttr) -> Vec<String> {
    let is_lost = |feature: &&Optional| feature.is_in(&planned.attr) && !feature.is_in(attr);
    let told = OPTIONAL.iter().filter(is_lost);
    told.filter_map(|feature| Some(format!("{}: {}", planned.name, feature.loss?)))
        .collect()
}

fn set_precise(planned: &mut Planned, level: u8) {
    if planned.precision == Precision::Highest {
        let flags = &mut planned.attr.flags;
        *flags = flags.without(AttrFlags::PRECISE_LOW | AttrFlags::PRECISE_HIGH);
        flags.0 |= u64::from(level & 3) << 15;
    }
}
