//! Signals that end a program, taken in order by one thread.
//!
//! Unsafe: the C library's signal sets are out-parameters; each is initialised before it is read.

use std::mem::MaybeUninit;

/// What a terminal, a batch system or mpirun sends to end a job.
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
pub fn on_ending(mut then: impl FnMut(i32) + Send + 'static) {
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
