//! What a thread that sleeps waits for, as /proc tells it.

use super::holders::{self, Held};
use super::pairing::Thread;
use prof_profile::WaitKind;
use std::fs;

/// What `/proc/TID/syscall` says of a thread that sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocked {
    /// `None` outside of a system call: in a page fault.
    pub(super) syscall: Option<u16>,
    pub(super) arguments: [u64; 6],
    pub(super) sp: u64,
    pub(super) pc: u64,
}

impl Blocked {
    /// `NUMBER A0 … A5 SP PC`, or `-1 SP PC`; `running` of one that is not
    /// asleep.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace();
        let number: i64 = fields.next()?.parse().ok()?;
        let mut next = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        if number >= 0 {
            for argument in &mut arguments {
                *argument = next()?;
            }
        }
        Some(Self {
            syscall: u16::try_from(number).ok(),
            arguments,
            sp: next()?,
            pc: next()?,
        })
    }

    /// Who holds the mutex that it waits for; times are for the caller.
    pub(super) fn holder(&self, thread: Thread) -> Option<Held> {
        let is_futex = self.syscall.map(i64::from) == Some(libc::SYS_futex);
        if !is_futex || !holders::may_be_for_mutex(self.arguments[1]) {
            return None;
        }
        let by = holders::holder(thread, self.arguments[0])?;
        Some(Held {
            thread,
            from: 0,
            until: 0,
            by,
        })
    }

    /// What it waits for, as far as the call tells.
    pub(super) fn kind(&self, tid: i32) -> WaitKind {
        // It has no user part, whatever its number says.
        if (self.sp, self.pc) == (0, 0) {
            return WaitKind::KernelThread;
        }
        let Some(number) = self.syscall else {
            return WaitKind::PageFault;
        };
        let found = CALLS
            .iter()
            .find(|(_, numbers)| numbers.contains(&i64::from(number)));
        match found {
            Some((Call::Is(kind), _)) => *kind,
            Some((Call::OnDescriptor(of_file), _)) => {
                let link = fs::read_link(format!("/proc/{tid}/fd/{}", self.arguments[0]));
                let link = link.ok();
                let name = link
                    .as_deref()
                    .map(|link| link.as_os_str().to_string_lossy());
                name.map_or(WaitKind::SystemCall, |name| of_descriptor(&name, *of_file))
            }
            None => WaitKind::SystemCall,
        }
    }
}

/// How a call tells what it waits for.
#[derive(Debug, Clone, Copy)]
enum Call {
    Is(WaitKind),
    /// By the descriptor that is its first argument; this, if that is a file.
    OnDescriptor(WaitKind),
}

/// What descriptors named so by /proc are; `of_file` if it is a file.
fn of_descriptor(name: &str, of_file: WaitKind) -> WaitKind {
    let begins = [
        ("pipe:", WaitKind::Pipe),
        ("socket:", WaitKind::Socket),
        ("anon_inode:", WaitKind::Descriptor),
        ("/dev/tty", WaitKind::Terminal),
        ("/dev/pts/", WaitKind::Terminal),
        ("/dev/console", WaitKind::Terminal),
        ("/dev/", WaitKind::Descriptor),
    ];
    let found = begins.iter().find(|(begin, _)| name.starts_with(begin));
    found.map_or(of_file, |found| found.1)
}

/// System calls that wait, by what for.
const CALLS: &[(Call, &[i64])] = &[
    (
        Call::Is(WaitKind::Futex),
        &[libc::SYS_futex, SYS_FUTEX_WAITV],
    ),
    (
        Call::Is(WaitKind::Poll),
        &[
            libc::SYS_ppoll,
            libc::SYS_pselect6,
            libc::SYS_epoll_pwait,
            SYS_EPOLL_PWAIT2,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
        ],
    ),
    (
        Call::Is(WaitKind::Sleep),
        &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep],
    ),
    (
        Call::Is(WaitKind::Child),
        &[libc::SYS_wait4, libc::SYS_waitid],
    ),
    (
        Call::Is(WaitKind::Vfork),
        &[
            libc::SYS_clone,
            libc::SYS_clone3,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_vfork,
        ],
    ),
    // Names are looked up in folders, programs read by their heads.
    (
        Call::Is(WaitKind::FileRead),
        &[
            libc::SYS_openat,
            libc::SYS_newfstatat,
            libc::SYS_statx,
            libc::SYS_faccessat,
            libc::SYS_readlinkat,
            libc::SYS_execve,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lstat,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_access,
        ],
    ),
    (
        Call::Is(WaitKind::FileWrite),
        &[
            libc::SYS_unlinkat,
            libc::SYS_mkdirat,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_renameat2,
            libc::SYS_truncate,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename,
        ],
    ),
    (
        Call::Is(WaitKind::Socket),
        &[
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_connect,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_recvmmsg,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_sendmmsg,
        ],
    ),
    (
        Call::OnDescriptor(WaitKind::FileRead),
        &[
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_pread64,
            libc::SYS_preadv,
            libc::SYS_getdents64,
        ],
    ),
    (
        Call::OnDescriptor(WaitKind::FileWrite),
        &[
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_pwrite64,
            libc::SYS_pwritev,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
        ],
    ),
    (
        Call::Is(WaitKind::FileSync),
        &[
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_msync,
            libc::SYS_sync,
            libc::SYS_syncfs,
            libc::SYS_sync_file_range,
        ],
    ),
    (Call::Is(WaitKind::FileLock), &[libc::SYS_flock]),
    (
        Call::Is(WaitKind::AsyncIo),
        &[SYS_IO_URING_ENTER, libc::SYS_io_getevents],
    ),
    (
        Call::Is(WaitKind::Signal),
        &[
            libc::SYS_rt_sigsuspend,
            libc::SYS_rt_sigtimedwait,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_pause,
        ],
    ),
    (
        Call::Is(WaitKind::Ipc),
        &[
            libc::SYS_msgrcv,
            libc::SYS_msgsnd,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_mq_timedreceive,
            libc::SYS_mq_timedsend,
        ],
    ),
];

/// The same number on all machines; see `asm-generic/unistd.h`.
const SYS_IO_URING_ENTER: i64 = 426;
const SYS_EPOLL_PWAIT2: i64 = 441;
const SYS_FUTEX_WAITV: i64 = 449;

#[cfg(test)]
mod tests {
    use super::{Blocked, WaitKind, of_descriptor};

    #[test]
    fn a_thread_tells_its_call_or_that_it_runs() {
        let text = "202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7fff38c347f8 0x7f32e72df2ad\n";
        let blocked = Blocked::parse(text).expect("a call");
        let values = (blocked.syscall, blocked.arguments[0], blocked.arguments[5]);
        assert_eq!(values, (Some(202), 0x7f01, 0xffff_ffff));
        assert_eq!(
            (blocked.sp, blocked.pc),
            (0x7fff_38c3_47f8, 0x7f32_e72d_f2ad)
        );
        let fault = Blocked::parse("-1 0x7fff38c347f8 0x401000").expect("no call");
        assert_eq!((fault.syscall, fault.pc), (None, 0x40_1000));
        assert_eq!(fault.kind(1), WaitKind::PageFault);
        let unlink = Blocked {
            syscall: u16::try_from(libc::SYS_unlinkat).ok(),
            ..blocked
        };
        assert_eq!(unlink.kind(1), WaitKind::FileWrite);
        let kernel = "0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0\n";
        let kernel = Blocked::parse(kernel).expect("a kernel thread");
        assert_eq!(kernel.kind(1), WaitKind::KernelThread);
        assert_eq!(Blocked::parse("running\n"), None);
        assert_eq!(Blocked::parse("202 0x1"), None);
        assert_eq!(Blocked::parse(""), None);
    }

    #[test]
    fn a_descriptor_tells_what_a_read_waits_for() {
        let kind = |name| of_descriptor(name, WaitKind::FileRead);
        assert_eq!(kind("pipe:[123]"), WaitKind::Pipe);
        assert_eq!(kind("socket:[4]"), WaitKind::Socket);
        assert_eq!(kind("anon_inode:[eventfd]"), WaitKind::Descriptor);
        assert_eq!(kind("/dev/pts/3"), WaitKind::Terminal);
        assert_eq!(kind("/home/a/pipe:"), WaitKind::FileRead);
    }
}
