//! Users by name and number, as a program runs as one of them.

use crate::checked;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A user with what a login gives a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// All groups, that one included.
    pub groups: Vec<u32>,
    /// Login name.
    pub name: OsString,
    /// Home directory.
    pub home: OsString,
    /// Login shell.
    pub shell: OsString,
}

/// Bytes for one entry of the user database; longer ones are asked for again.
const FIRST_ROOM: usize = 1 << 12;
/// An entry is not longer, bytes.
const MOST_ROOM: usize = 1 << 20;

impl Identity {
    /// The user with this login name; `None` if there is none.
    ///
    /// # Errors
    /// If the user database cannot be read.
    pub fn of_name(name: &OsStr) -> io::Result<Option<Self>> {
        let name = CString::new(name.as_bytes())?;
        look_up(|entry, room, found| {
            // SAFETY: the name ends with NUL, entry and room are live and of
            // the lengths given, and `found` gets null or `entry`.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, room.as_mut_ptr(), room.len(), found) }
        })
    }

    /// The user with this id; `None` if there is none.
    ///
    /// # Errors
    /// If the user database cannot be read.
    pub fn of_uid(uid: u32) -> io::Result<Option<Self>> {
        look_up(|entry, room, found| {
            // SAFETY: as in `of_name`.
            unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr(), room.len(), found) }
        })
    }

    /// All threads of this process become this user, with its groups and, where
    /// they were root's, without any capability.
    ///
    /// What is open stays open. Other processes of the user can send signals to
    /// this one, but neither read its memory nor take its descriptors: the
    /// kernel makes a process that changes its user undumpable.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SETUID` and `CAP_SETGID`. Groups may have changed.
    pub fn become_for_good(&self) -> io::Result<()> {
        // SAFETY: the list is as long as told; all else are numbers. These are
        // libc's functions, which make each thread do the same.
        unsafe {
            checked(libc::setgroups(self.groups.len(), self.groups.as_ptr()))?;
            checked(libc::setresgid(self.gid, self.gid, self.gid))?;
            checked(libc::setresuid(self.uid, self.uid, self.uid))?;
        }
        Ok(())
    }

    /// Whether this user may find, make and remove files in a directory; `false`
    /// also where that cannot be tried. For callers that may become the user.
    pub fn may_write_in(&self, directory: &Path) -> bool {
        let Ok(directory) = CString::new(directory.as_os_str().as_bytes()) else {
            return false;
        };
        // In a thread of its own, which alone becomes the user and then ends.
        std::thread::scope(|scope| {
            let asked = std::thread::Builder::new().spawn_scoped(scope, || {
                // SAFETY: the string ends with NUL.
                become_user(self)
                    && unsafe { libc::access(directory.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
            });
            asked.is_ok_and(|asked| asked.join().unwrap_or(false))
        })
    }

    /// The environment of a program that runs as this user: ours, but for what
    /// a login sets.
    pub(crate) fn environment(&self) -> Vec<CString> {
        let own = [
            ("HOME", &self.home),
            ("LOGNAME", &self.name),
            ("SHELL", &self.shell),
            ("USER", &self.name),
        ];
        let others = std::env::vars_os();
        let others = others.filter(|(name, _)| own.iter().all(|(own, _)| name != own));
        let own = own.map(|(name, value)| (OsString::from(name), value.clone()));
        let variables = others.chain(own).filter_map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            CString::new(name.into_vec()).ok()
        });
        variables.collect()
    }
}

type Ask<'a> =
    &'a dyn Fn(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int;

fn look_up(
    ask: impl Fn(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int,
) -> io::Result<Option<Identity>> {
    let mut room = FIRST_ROOM;
    loop {
        match look_up_in(room, &ask) {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && room < MOST_ROOM => {
                room *= 4;
            }
            other => return other,
        }
    }
}

fn look_up_in(room: usize, ask: Ask<'_>) -> io::Result<Option<Identity>> {
    let mut room: Vec<libc::c_char> = vec![0; room];
    // SAFETY: `passwd` is integers and pointers that nobody follows before the
    // call has set them; zeros are a value of it.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    match ask(&raw mut entry, &mut room, &raw mut found) {
        0 if found.is_null() => return Ok(None),
        0 => {}
        errno => return Err(io::Error::from_raw_os_error(errno)),
    }
    let text = |field: *const libc::c_char| match field.is_null() {
        true => OsString::new(),
        // SAFETY: the call succeeded, so the field is a string in `room`,
        // which is alive and not changed any more.
        false => OsString::from_vec(unsafe { CStr::from_ptr(field) }.to_bytes().to_vec()),
    };
    Ok(Some(Identity {
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        groups: groups(entry.pw_name, entry.pw_gid),
        name: text(entry.pw_name),
        home: text(entry.pw_dir),
        shell: text(entry.pw_shell),
    }))
}

/// All groups of a user.
fn groups(name: *const libc::c_char, gid: u32) -> Vec<u32> {
    const MOST: usize = 1 << 16;
    let mut groups: Vec<libc::gid_t> = vec![gid; MOST];
    let mut count = libc::c_int::try_from(MOST).unwrap_or(libc::c_int::MAX);
    // SAFETY: the name is the string of an entry that is alive; the list has
    // room for as many as `count` says, and `count` gets how many there are.
    let known = unsafe { libc::getgrouplist(name, gid, groups.as_mut_ptr(), &raw mut count) };
    let count = usize::try_from(count).unwrap_or(0);
    groups.truncate(if known < 0 { 1 } else { count.max(1) });
    groups
}

/// The calling thread takes on a user's ids for good; `false`, with `errno` set,
/// if that is not permitted. Who is that user keeps the groups that may not be
/// changed. Only system calls: no other thread is to follow.
pub(crate) fn become_user(user: &Identity) -> bool {
    // SAFETY: the list is as long as told; all else are numbers.
    unsafe {
        let (count, groups) = (user.groups.len(), user.groups.as_ptr());
        (libc::syscall(libc::SYS_setgroups, count, groups) == 0 || is_already(user))
            && libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) == 0
            && libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) == 0
            && inherit_no_capabilities()
    }
}

/// Whether this process is the user's, in its group. `errno` stays.
fn is_already(user: &Identity) -> bool {
    // SAFETY: no pointers, and they do not fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    (uid, gid) == (user.uid, user.gid)
}

/// Empties the inheritable set, which a change of ids leaves as it is: a
/// program with file capabilities (`setcap …+i`) would get them by it. The
/// ambient set goes with it. `false`, with `errno` set, if that is refused.
/// Only system calls.
///
/// Source: capabilities(7), capget(2).
fn inherit_no_capabilities() -> bool {
    /// `_LINUX_CAPABILITY_VERSION_3`; of the calling thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    let mut header = HEADER;
    // Effective, permitted, inheritable; the lower halves first.
    let mut sets = [0_u32; 6];
    // SAFETY: the kernel writes at most two live arrays of the layout of this
    // version.
    let got = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    if got != 0 {
        return false;
    }
    sets[2] = 0;
    sets[5] = 0;
    header = HEADER;
    // SAFETY: as above, and reads the second.
    unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) == 0 }
}

#[cfg(test)]
mod tests {
    use super::Identity;
    use std::ffi::OsStr;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Identity::of_uid(0).expect("readable").expect("there");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        let same = Identity::of_name(&root.name).expect("readable");
        assert_eq!(same, Some(root.clone()));
        let none = Identity::of_name(OsStr::new("no-such-user-here")).expect("readable");
        assert_eq!(none, None);
        let environment = root.environment();
        let homes = environment
            .iter()
            .filter(|it| it.as_bytes().starts_with(b"HOME="));
        assert_eq!(homes.count(), 1);
    }
}
