//! Detects whether a signal is ending a waiting program.
//!
//! The kernel sends INTERRUPT for every signal, also for one that the program catches or that stops it; a read of a local disk
//! is not aborted for those. For a fatal signal Linux waits for our reply before the program ends, and does not tell which
//! signal it was. /proc shows it: a signal that ends the whole program makes SIGKILL pending in each of its threads (a signal
//! that writes a core image stays pending itself), and it stays pending until the reply arrives.

use std::fs;

/// Signals whose default action ends no program: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH; bit n − 1 for signal n.
const HARMLESS: u64 = 1 << (libc::SIGCHLD - 1)
    | 1 << (libc::SIGCONT - 1)
    | 1 << (libc::SIGSTOP - 1)
    | 1 << (libc::SIGTSTP - 1)
    | 1 << (libc::SIGTTIN - 1)
    | 1 << (libc::SIGTTOU - 1)
    | 1 << (libc::SIGURG - 1)
    | 1 << (libc::SIGWINCH - 1);
const KILL: u64 = 1 << (libc::SIGKILL - 1);

/// Whether this thread ends as soon as it gets its reply. False if the thread does not exist, or if this process may not see
/// it.
pub(super) fn has_fatal_signal(thread: u32) -> bool {
    fs::read_to_string(format!("/proc/{thread}/status"))
        .is_ok_and(|status| status_has_fatal_signal(&status))
}

fn status_has_fatal_signal(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0)
    };
    let pending = set("SigPnd:") | set("ShdPnd:");
    let handled = set("SigBlk:") | set("SigIgn:") | set("SigCgt:");
    pending & KILL != 0 || pending & !handled & !HARMLESS != 0
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
    fn a_pending_signal_is_fatal_unless_blocked_ignored_or_caught() {
        let (term, quit) = (bit(libc::SIGTERM), bit(libc::SIGQUIT));
        assert!(!status_has_fatal_signal(&status(0, 0, 0, 0, 0)));
        assert!(status_has_fatal_signal(&status(
            bit(libc::SIGKILL),
            0,
            0,
            0,
            0
        )));
        assert!(status_has_fatal_signal(&status(
            0,
            bit(libc::SIGKILL),
            0,
            0,
            0
        )));
        assert!(status_has_fatal_signal(&status(0, quit, 0, 0, term)));
        assert!(
            !status_has_fatal_signal(&status(0, term, term, 0, 0)),
            "blocked"
        );
        assert!(
            !status_has_fatal_signal(&status(0, term, 0, term, 0)),
            "ignored"
        );
        assert!(
            !status_has_fatal_signal(&status(term, 0, 0, 0, term)),
            "caught"
        );
        let harmless = bit(libc::SIGTSTP) | bit(libc::SIGWINCH) | bit(libc::SIGCHLD);
        assert!(!status_has_fatal_signal(&status(
            harmless, harmless, 0, 0, 0
        )));
        assert!(
            status_has_fatal_signal(&status(1 << 63, 0, 0, 0, 0)),
            "SIGRTMAX"
        );
        assert!(!status_has_fatal_signal("Name:\tdd\n"));
    }

    #[test]
    fn this_thread_and_thread_0_have_no_fatal_signal() {
        assert!(!has_fatal_signal(std::process::id()));
        assert!(!has_fatal_signal(0));
    }
}
