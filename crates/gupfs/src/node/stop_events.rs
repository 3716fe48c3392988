//! What ends a process: a signal, or somebody who asks through the control socket.

use crate::exit::{CliResult, OrCliError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Somebody asked through the control socket.
pub struct StopRequest {
    pub force: bool,
    pub answer: oneshot::Sender<Result<(), String>>,
}

pub struct StopEvents {
    pub signals: Signals,
    pub stops: mpsc::Receiver<StopRequest>,
}

impl StopEvents {
    /// From here on signals come here. Whoever asks for a stop sends it to the other end.
    pub fn listen() -> CliResult<(StopEvents, mpsc::Sender<StopRequest>)> {
        let (ask, stops) = mpsc::channel(1);
        let told = StopEvents {
            signals: Signals::listen()?,
            stops,
        };
        Ok((told, ask))
    }

    /// Returns when a process without a mount is to end, with what led to it.
    pub async fn wait(&mut self) -> String {
        tokio::select! {
            signal = self.signals.next() => format!("{signal}: stopping"),
            Some(request) = self.stops.recv() => {
                // Who asked may have gone away.
                let _ = request.answer.send(Ok(()));
                "asked to stop: stopping".into()
            }
        }
    }
}

/// The signals that end us.
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
