//! The answering side.

use super::{ControlReply, ControlRequest, address};
use crate::exit::{CliResult, OrCliError};
use gupfs_platform::{Task, Tasks};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Longest question: a layout of the most components with its keys spelled out is below 4 KiB.
const REQUEST_MAX: u64 = 64 << 10;

/// A connection that asks nothing for so long is closed: a command connects, asks, and leaves.
const IDLE: Duration = Duration::from_secs(10);

/// Connections at once; others wait in the kernel until one is closed. Only the owner of the directory gets this far, and a
/// loop of commands of his must not take the descriptors that the process needs.
pub const CONNECTIONS_MAX: usize = 8;

/// What answers.
pub trait ControlHandler: Send + Sync + 'static {
    fn handle(&self, ask: ControlRequest) -> impl Future<Output = ControlReply> + Send;
}

/// Ends the serving when dropped; the socket goes with it.
pub struct ControlServer {
    run: PathBuf,
    task: Task<()>,
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.stop();
        let _ = std::fs::remove_file(self.run.join(super::SOCKET));
    }
}

pub fn serve<A: ControlHandler>(
    run: &Path,
    tasks: &Tasks,
    answerer: Arc<A>,
) -> CliResult<ControlServer> {
    // We hold the store's lock, or the mount point: a socket that is there is a dead process's.
    let _ = std::fs::remove_file(run.join(super::SOCKET));
    let (_dir, path) = address(run).or_trouble(|| format!("cannot open '{}'", run.display()))?;
    let listener = UnixListener::bind(&path)
        .or_trouble(|| format!("cannot make the control socket in '{}'", run.display()))?;
    let each = tasks.clone();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let task = tasks.spawn("control", async move {
        loop {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let answerer = answerer.clone();
                    each.spawn("control connection", async move {
                        serve_connection(stream, answerer).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a control connection");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    });
    Ok(ControlServer {
        run: run.to_path_buf(),
        task,
    })
}

/// Questions of one connection, one after the other, until it closes.
async fn serve_connection<A: ControlHandler>(stream: UnixStream, answerer: Arc<A>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut read).take(REQUEST_MAX);
        match tokio::time::timeout(IDLE, limited.read_until(b'\n', &mut line)).await {
            Ok(Ok(got)) if got > 0 => {}
            _ => return,
        }
        let reply = match serde_json::from_slice(&line) {
            Ok(ask) => answerer.handle(ask).await,
            Err(error) => ControlReply::Bad(format!("this question is not understood: {error}")),
        };
        let Ok(mut text) = serde_json::to_vec(&reply) else {
            return;
        };
        text.push(b'\n');
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}
