//! The server side of the control socket.

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

/// Longest request: a layout with the most components and all keys is below 4 KiB.
const REQUEST_MAX: u64 = 64 << 10;

/// The server closes a connection without a request for so long: a command connects, sends one request, and disconnects.
const IDLE: Duration = Duration::from_secs(10);

/// Connections at a time; others wait in the kernel's queue. Only the owner of the directory can connect, but a loop of commands must
/// not use up the descriptors that the process needs.
pub const CONNECTIONS_MAX: usize = 8;

/// Executes control requests.
pub trait ControlHandler: Send + Sync + 'static {
    fn handle(&self, request: ControlRequest) -> impl Future<Output = ControlReply> + Send;
}

/// A control socket; a drop closes and removes it.
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
    handler: Arc<A>,
) -> CliResult<ControlServer> {
    // This process holds the store's lock or the mount point: an existing socket belongs to a process that has died.
    let _ = std::fs::remove_file(run.join(super::SOCKET));
    let (_dir, path) = address(run).or_cli_error(|| format!("cannot open '{}'", run.display()))?;
    let listener = UnixListener::bind(&path)
        .or_cli_error(|| format!("cannot make the control socket in '{}'", run.display()))?;
    let each = tasks.clone();
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let task = tasks.spawn("control", async move {
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let handler = handler.clone();
                    each.spawn("control connection", async move {
                        serve_connection(stream, handler).await;
                        drop(permit);
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

/// Executes the requests of one connection, one after the other, until it closes.
async fn serve_connection<A: ControlHandler>(stream: UnixStream, handler: Arc<A>) {
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
            Ok(request) => handler.handle(request).await,
            Err(error) => ControlReply::Bad(format!(
                "this program does not understand the request: {error}"
            )),
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
