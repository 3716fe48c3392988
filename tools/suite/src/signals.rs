//! Signals that end a program, taken in order by one thread.
//!
//! Unsafe: the C library's signal sets are out-parameters; each is initialised before it is read. What a new process does
//! before its program begins may only call what is safe after fork(2): sigmask and prctl are.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// The signals with which a terminal, a batch system or mpirun ends a job.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

fn ending() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, the others change it; the signals are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in ENDING {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// From now on such a signal ends no thread: `then` is called with its number, by a thread of its own. To be called before
/// other threads are started, since they inherit the mask.
pub fn on_termination(mut then: impl FnMut(i32) + Send + 'static) {
    let set = ending();
    // SAFETY: the set is initialised, and the former mask is not asked for.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    assert_eq!(blocked, 0, "a valid set can be blocked");
    std::thread::spawn(move || {
        loop {
            let mut signal = 0;
            // SAFETY: both point to initialised memory that lives on.
            if unsafe { libc::sigwait(&set, &mut signal) } == 0 {
                then(signal);
            }
        }
    });
}

/// Lets the signals that [`on_termination`] took through to a program that is started, which inherits the mask; and ends it if this
/// process is killed.
pub fn unblock_in(command: &mut Command) {
    let set = ending();
    let before = move || {
        // SAFETY: the set is initialised, and the former mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) };
        set_parent_process_death_signal(Some(Signal::TERM))?;
        Ok(())
    };
    // SAFETY: it makes two system calls and touches no memory of other threads.
    unsafe { command.pre_exec(before) };
}
