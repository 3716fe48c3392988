//! Properties of a thread or process: credentials, umask, private file tables and mounts, forks, signals, sockets.

use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{Fd, c, descriptor, done, number};
use crate::outcome::Answer;

pub fn geteuid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

pub fn getegid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::getegid() }
}

pub fn getpid() -> i32 {
    // SAFETY: cannot fail.
    unsafe { libc::getpid() }
}

/// The supplementary groups of this thread.
#[cfg(test)]
pub fn getgroups() -> Vec<u32> {
    let mut groups = vec![0u32; 256];
    // SAFETY: see the module.
    let got = unsafe { libc::getgroups(groups.len() as i32, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(got).unwrap_or(0));
    groups
}

/// Change this thread, and no other, to another user for good.
pub fn set_credentials(uid: u32, gid: u32, groups: &[u32]) -> Answer {
    // Groups first: without root's capabilities they could not be set any more.
    // SAFETY: see the module; the raw calls leave the other threads alone, which is the point.
    unsafe {
        done(
            "setgroups",
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
        )?;
        done(
            "setresgid",
            libc::syscall(libc::SYS_setresgid, gid, gid, gid),
        )?;
        done(
            "setresuid",
            libc::syscall(libc::SYS_setresuid, uid, uid, uid),
        )
    }
}

/// Change only the real or only the effective user of this thread: access(2) asks for the former.
pub fn set_real_and_effective(real: u32, effective: u32) -> Answer {
    // SAFETY: see the module; the saved id stays.
    done("setresuid", unsafe {
        libc::syscall(libc::SYS_setresuid, real, effective, u32::MAX)
    })
}

/// This thread gets its own working directory and umask.
pub fn unshare_fs() -> Answer {
    // SAFETY: see the module.
    done("unshare CLONE_FS", unsafe { libc::unshare(libc::CLONE_FS) })
}

/// This thread gets its own table of mounts, whose changes stay inside.
pub fn unshare_mounts() -> Answer {
    // SAFETY: see the module.
    done("unshare CLONE_NEWNS", unsafe {
        libc::unshare(libc::CLONE_NEWNS)
    })?;
    mount_flags("none", "/", libc::MS_REC | libc::MS_PRIVATE)
}

/// Make the tree at `from` visible at `to` too.
pub fn bind_mount(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Answer {
    mount_flags(from, to, libc::MS_BIND)
}

pub fn mount_flags(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, flags: libc::c_ulong) -> Answer {
    let (from, to) = (c(from), c(to));
    // SAFETY: see the module.
    done("mount", unsafe {
        libc::mount(
            from.as_ptr(),
            to.as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    })
}

pub fn umask(mask: u32) -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::umask(mask) }
}

/// Cannot be undone by forgetting: a check's thread ends with the check.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// fork(2). Zero in the child.
///
/// # Safety
/// The child has one thread, a copy of the caller's. It may allocate (glibc's allocator is safe across fork) but must
/// not take locks that other threads of the parent may hold (standard output, the test harness), and must leave by
/// [`leave`].
pub unsafe fn fork() -> Answer<i32> {
    // SAFETY: the caller keeps the contract above.
    number("fork", unsafe { libc::fork() }).map(|pid| pid as i32)
}

/// End a forked child without running anything that belongs to the parent.
pub fn leave(status: i32) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(status) }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(i32),
}

pub fn wait_for(pid: i32) -> Answer<End> {
    let mut status = 0;
    loop {
        // SAFETY: see the module.
        match number("waitpid", unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
            // A signal of the surrounding program is no news about the child.
            Err(refused) if refused.errno == crate::errno::EINTR => continue,
            Err(refused) => return Err(refused),
            Ok(_) if libc::WIFSIGNALED(status) => return Ok(End::Killed(libc::WTERMSIG(status))),
            Ok(_) => return Ok(End::Exited(libc::WEXITSTATUS(status))),
        }
    }
}

pub fn kill(pid: i32, signal: i32) -> Answer {
    // SAFETY: the suite signals only children that it has not waited for yet.
    done("kill", unsafe { libc::kill(pid, signal) })
}

/// The child dies with the thread that forked it, so that no run leaves a process behind.
pub fn die_with_parent() {
    // SAFETY: see the module.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// RLIMIT_FSIZE of the whole process; only children call it.
pub fn limit_file_size(bytes: u64) -> Answer {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: see the module.
    done("setrlimit", unsafe {
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    })
}

/// RLIMIT_NOFILE of the whole process; only children call it.
pub fn limit_descriptors(number: u64) -> Answer {
    let limit = libc::rlimit {
        rlim_cur: number,
        rlim_max: number,
    };
    // SAFETY: see the module.
    done("setrlimit", unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    })
}

pub fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

pub fn default_signal(signal: i32) {
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// A blocking call of this process is interrupted after `time`, again and again, with a handler that does nothing and
/// does not restart it. Only children call it.
pub fn interrupt_after(time: Duration) {
    extern "C" fn nothing(_signal: i32) {}
    let beat = libc::timeval {
        tv_sec: time.as_secs() as i64,
        tv_usec: i64::from(time.subsec_micros()),
    };
    let timer = libc::itimerval {
        it_interval: beat,
        it_value: beat,
    };
    // SAFETY: the handler touches nothing; without SA_RESTART the call returns EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// Become another program; returns only what execve(2) refused with.
pub fn execute(program: impl AsRef<[u8]>) -> Answer {
    execute_with(program, "")
}

/// The same with one argument.
pub fn execute_with(program: impl AsRef<[u8]>, argument: &str) -> Answer {
    let (program, argument) = (c(program), c(argument));
    let arguments = [program.as_ptr(), argument.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: see the module; both lists end with NULL. Returns only when refused.
    done("execve", unsafe {
        libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr())
    })
}

fn address(name: &[u8]) -> (libc::sockaddr_un, u32) {
    // SAFETY: plain data, zero is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    assert!(
        name.len() < address.sun_path.len(),
        "a socket's name fits its address"
    );
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    (
        address,
        (size_of::<libc::sa_family_t>() + name.len() + 1) as u32,
    )
}

pub fn unix_socket() -> Answer<Fd> {
    // SAFETY: see the module.
    descriptor("socket", unsafe {
        libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
    })
}

pub fn bind(socket: impl AsRawFd, name: impl AsRef<[u8]>) -> Answer {
    let (address, length) = address(name.as_ref());
    // SAFETY: see the module.
    done("bind", unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    })
}

pub fn listen(socket: impl AsRawFd) -> Answer {
    // SAFETY: see the module.
    done("listen", unsafe { libc::listen(socket.as_raw_fd(), 8) })
}

pub fn connect(socket: impl AsRawFd, name: impl AsRef<[u8]>) -> Answer {
    let (address, length) = address(name.as_ref());
    // SAFETY: see the module.
    done("connect", unsafe {
        libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length)
    })
}

pub fn accept(socket: impl AsRawFd) -> Answer<Fd> {
    // SAFETY: see the module; the peer's address is not asked for.
    descriptor("accept", unsafe {
        libc::accept4(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_CLOEXEC,
        )
    })
}

/// Two connected sockets, for words between a check and its child.
pub fn socket_pair() -> Answer<(Fd, Fd)> {
    let mut ends = [0i32; 2];
    // SAFETY: see the module.
    done("socketpair", unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        )
    })?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

/// This thread, and no other, gives up its supplementary groups.
pub fn set_groups_empty() -> Answer {
    // SAFETY: see the module; zero groups are read from nowhere.
    done("setgroups", unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>())
    })
}
