//! If a program that waits is being ended by a signal.
//!
//! INTERRUPT comes for every signal, also for one that the program catches or that stops it; files of a local disk are not
//! given up for those. For a fatal one Linux waits for our answer before the program ends, and says nothing of which it
//! was. /proc does: a signal that ends the whole program makes SIGKILL pending in each of its threads (one that is to leave a
//! core image stays what it is), and it is pending until the answer is there.

use std::fs;

/// Signals that end nobody: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH; bit n − 1 for signal n.
const HARMLESS: u64 = 1 << (libc::SIGCHLD - 1)
    | 1 << (libc::SIGCONT - 1)
    | 1 << (libc::SIGSTOP - 1)
    | 1 << (libc::SIGTSTP - 1)
    | 1 << (libc::SIGTTIN - 1)
    | 1 << (libc::SIGTTOU - 1)
    | 1 << (libc::SIGURG - 1)
    | 1 << (libc::SIGWINCH - 1);
const KILL: u64 = 1 << (libc::SIGKILL - 1);

/// If this thread ends as soon as it gets its answer. False if it is not there, or not for us to see.
pub(super) fn ends(thread: u32) -> bool {
    fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| says_it_ends(&status))
}

fn says_it_ends(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0)
    };
    let pending = set("SigPnd:") | set("ShdPnd:");
    let taken = set("SigBlk:") | set("SigIgn:") | set("SigCgt:");
    pending & KILL != 0 || pending & !taken & !HARMLESS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: u64, shared: u64, blocked: u64, ignored: u64, caught: u64) -> String {
        format!(
            "Name:\tdd\nSigQ:\t0/1\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n\
             SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nCapInh:\t0000000000000000\n"
        )
    }

    fn bit(signal: i32) -> u64 {
        1 << (signal - 1)
    }

    #[test]
    fn a_signal_is_fatal_if_it_is_pending_and_nothing_stands_against_it() {
        let (term, quit) = (bit(libc::SIGTERM), bit(libc::SIGQUIT));
        assert!(!says_it_ends(&status(0, 0, 0, 0, 0)));
        assert!(says_it_ends(&status(bit(libc::SIGKILL), 0, 0, 0, 0)));
        assert!(says_it_ends(&status(0, bit(libc::SIGKILL), 0, 0, 0)));
        assert!(says_it_ends(&status(0, quit, 0, 0, term)));
        assert!(!says_it_ends(&status(0, term, term, 0, 0)), "blocked");
        assert!(!says_it_ends(&status(0, term, 0, term, 0)), "ignored");
        assert!(!says_it_ends(&status(term, 0, 0, 0, term)), "caught");
        let harmless = bit(libc::SIGTSTP) | bit(libc::SIGWINCH) | bit(libc::SIGCHLD);
        assert!(!says_it_ends(&status(harmless, harmless, 0, 0, 0)));
        assert!(says_it_ends(&status(1 << 63, 0, 0, 0, 0)), "SIGRTMAX");
        assert!(!says_it_ends("Name:\tdd\n"));
    }

    #[test]
    fn this_thread_does_not_end_and_nobody_has_number_0() {
        assert!(!ends(std::process::id()));
        assert!(!ends(0));
    }
}
