//! A program with a working directory: a thread that does not share its own with the rest of the process.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use gupfs_fuse::Errno;
use gupfs_fuse::mountpoint::unshare_working_directory;
use tokio::sync::oneshot;

use crate::kernel_under_test::ProbeDirectory;

type Work = Box<dyn FnOnce() + Send>;

/// Calls of one thread in its working directory. A drop ends the thread.
pub struct WorkingDirectory {
    calls: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl WorkingDirectory {
    /// Enters a directory.
    pub(crate) async fn enter(path: PathBuf) -> Result<WorkingDirectory, Errno> {
        let (calls, work) = channel::<Work>();
        let thread = std::thread::spawn(move || work.iter().for_each(|call| call()));
        let program = WorkingDirectory {
            calls: Some(calls),
            thread: Some(thread),
        };
        program
            .call(move || {
                unshare_working_directory()?;
                std::env::set_current_dir(path)
            })
            .await?;
        Ok(program)
    }

    /// Runs `work` on the thread; it continues if the future is dropped.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Errno> {
        let (answer, result) = oneshot::channel();
        let call: Work = Box::new(move || {
            // The caller may have stopped waiting.
            let _ = answer.send(work());
        });
        let calls = self.calls.as_ref().ok_or(Errno::EIO)?;
        calls.send(call).map_err(|_| Errno::EIO)?;
        Ok(result.await.map_err(|_| Errno::EIO)??)
    }
}

impl ProbeDirectory for WorkingDirectory {
    async fn name(&self) -> Result<String, Errno> {
        let path = self.call(std::env::current_dir).await?;
        let last = path.file_name().unwrap_or_default();
        Ok(last.to_string_lossy().into_owned())
    }

    async fn size(&self, name: &str) -> Result<u64, Errno> {
        let name = name.to_owned();
        self.call(move || Ok(std::fs::metadata(name)?.len())).await
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        drop(self.calls.take());
        // The mount is not unmounted while a thread is in it.
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok());
        }
    }
}
