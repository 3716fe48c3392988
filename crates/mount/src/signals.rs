//! Detects signals of a program that waits for a reply.

use gupfs_fuse::Call;
use gupfs_platform::Clock;
use std::time::Duration;

/// How often the mount polls for a signal for which the kernel has sent no INTERRUPT.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Ready when the program that waits for the reply got a signal. Over io_uring the kernel sends no INTERRUPT for a signal that
/// arrives while the request is in transit (`gupfs_fuse::Interrupted`); such a signal stays pending, which /proc shows.
pub async fn wait_for_signal(call: &Call, clock: &Clock) {
    let pending = async {
        loop {
            clock.sleep(POLL_EVERY).await;
            if has_pending_signal(call.pid) {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = call.interrupted() => {}
        () = pending => {}
    }
}

/// False for a thread that has ended or is in another pid namespace.
fn has_pending_signal(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| parse_pending(&status))
}

/// Signals for the thread or its process that are neither blocked nor ignored.
fn parse_pending(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let hex = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
        hex.unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") & !set("SigIgn:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_that_is_neither_blocked_nor_ignored() {
        let status = |thread: u64, process: u64| {
            format!(
                "Name:\tsh\nSigPnd:\t{thread:016x}\nShdPnd:\t{process:016x}\n\
                 SigBlk:\t0000000000000001\nSigIgn:\t0000000000000002\n"
            )
        };
        let found = [(0, 0), (1, 2), (4, 0), (0, 4)].map(|(a, b)| parse_pending(&status(a, b)));
        assert_eq!(found, [false, false, true, true]);
        assert!(!parse_pending("Name:\tsh\n"));
    }
}
