//! The events that stop a process: signals, and `gupfs stop` through the control socket.

use crate::exit::{CliResult, OrCliError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// A request of `gupfs stop`.
pub struct StopRequest {
    pub force: bool,
    pub reply: oneshot::Sender<Result<(), String>>,
}

/// Receives the events that stop this process.
pub struct StopEvents {
    pub signals: Signals,
    pub requests: mpsc::Receiver<StopRequest>,
}

impl StopEvents {
    /// Installs the signal handlers. The returned sender passes stop requests of the control socket.
    ///
    /// # Errors
    /// If a signal handler cannot be installed.
    pub fn listen() -> CliResult<(StopEvents, mpsc::Sender<StopRequest>)> {
        let (sender, requests) = mpsc::channel(1);
        let events = StopEvents {
            signals: Signals::listen()?,
            requests,
        };
        Ok((events, sender))
    }

    /// Waits for an event that stops a process without a mount; returns its description.
    pub async fn wait(&mut self) -> String {
        tokio::select! {
            signal = self.signals.next() => format!("{signal}: stopping"),
            Some(request) = self.requests.recv() => {
                // The command may have ended.
                let _ = request.reply.send(Ok(()));
                "gupfs stop: stopping".into()
            }
        }
    }
}

/// The signals that stop this process.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None if this process was started with SIGHUP ignored, by nohup(1): then the end of its terminal does not stop it.
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> CliResult<Signals> {
        let listen = |kind| signal(kind).or_cli_error(|| "cannot listen for signals".into());
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: match is_ignored(SignalKind::hangup()) {
                true => None,
                false => Some(listen(SignalKind::hangup())?),
            },
        })
    }

    pub async fn next(&mut self) -> &'static str {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = hang_up => "SIGHUP",
        }
    }
}

/// Whether the process that started this one had set it to ignore a signal. Before this process listens for it.
fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal.as_raw_value() - 1)) != 0)
}
