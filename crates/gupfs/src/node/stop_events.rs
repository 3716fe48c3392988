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
    hang_up: Signal,
}

impl Signals {
    fn listen() -> CliResult<Signals> {
        let listen = |kind| signal(kind).or_cli_error(|| "cannot listen for signals".into());
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
