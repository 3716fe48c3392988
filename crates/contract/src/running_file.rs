//! Open files of the running kernel.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError};

use gupfs_fuse::Errno;
use rustix::fs::FlockOperation;

use crate::ProbeFailure;
use crate::kernel_under_test::{ProbeFile, ProbePipe};
use crate::shared_mapping::SharedMapping;

const PAGE: usize = 4096;

pub struct RunningFile {
    file: Arc<File>,
    map: Arc<Mutex<Option<SharedMapping>>>,
}

/// Bytes of a file that are in a pipe.
pub struct SplicedBytes(OwnedFd);

impl ProbePipe for SplicedBytes {
    fn first(&self) -> Result<u8, Errno> {
        let mut byte = [0];
        match rustix::io::read(&self.0, &mut byte).map_err(io::Error::from)? {
            1 => Ok(byte[0]),
            _ => Err(Errno::EIO),
        }
    }
}

/// Runs `work` on a thread that may block; it continues if the future is dropped.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Errno> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Errno::from),
        Err(_) => Err(Errno::EIO),
    }
}

impl RunningFile {
    pub(crate) fn new(file: File) -> RunningFile {
        RunningFile {
            file: Arc::new(file),
            map: Arc::default(),
        }
    }

    /// Accesses the first page through a shared mapping, which the first call creates.
    async fn with_mapping<T: Send + 'static>(
        &self,
        access: impl FnOnce(&mut [u8]) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let (file, map) = (self.file.clone(), self.map.clone());
        run_blocking(move || {
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            let map = match &mut *map {
                Some(map) => map,
                none => none.insert(SharedMapping::shared(&file, PAGE)?),
            };
            Ok(access(map.bytes_mut()))
        })
        .await
    }

    async fn spliced(&self) -> Result<SplicedBytes, Errno> {
        let file = self.file.clone();
        run_blocking(move || {
            let (out, into) = rustix::pipe::pipe()?;
            let flags = rustix::pipe::SpliceFlags::empty();
            rustix::pipe::splice(file.as_fd(), Some(&mut 0), into, None, 100, flags)?;
            Ok(SplicedBytes(out))
        })
        .await
    }
}

impl ProbeFile for RunningFile {
    type Pipe = SplicedBytes;

    async fn read(&self, at: u64) -> Result<Option<u8>, Errno> {
        let file = self.file.clone();
        run_blocking(move || {
            let mut byte = [0];
            Ok((file.read_at(&mut byte, at)? == 1).then_some(byte[0]))
        })
        .await
    }

    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        run_blocking(move || file.write_all_at(&bytes, at)).await
    }

    async fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        run_blocking(move || io::Write::write_all(&mut &*file, &bytes)).await
    }

    async fn splice(&self) -> Result<(), Errno> {
        self.spliced().await.map(drop)
    }

    async fn store(&self, byte: u8) -> Result<(), Errno> {
        self.with_mapping(move |bytes| bytes[0] = byte).await
    }

    async fn flock(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        run_blocking(move || Ok(rustix::fs::flock(&*file, FlockOperation::LockExclusive)?)).await
    }

    async fn lock(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        let operation = FlockOperation::NonBlockingLockExclusive;
        run_blocking(move || Ok(rustix::fs::fcntl_lock(&*file, operation)?)).await
    }

    async fn close(self) {
        drop(self);
    }

    async fn load(&self) -> Result<u8, ProbeFailure> {
        Ok(self.with_mapping(|bytes| bytes[0]).await?)
    }

    async fn splice_into_pipe(&self) -> Result<SplicedBytes, ProbeFailure> {
        Ok(self.spliced().await?)
    }

    async fn send(&self) -> Result<u8, ProbeFailure> {
        let file = self.file.clone();
        let sent = run_blocking(move || {
            let (out, into) = rustix::pipe::pipe()?;
            rustix::fs::sendfile(into, &*file, Some(&mut 0), 100)?;
            Ok(SplicedBytes(out))
        });
        Ok(sent.await?.first()?)
    }

    async fn links(&self) -> Result<u64, ProbeFailure> {
        let file = self.file.clone();
        Ok(run_blocking(move || Ok(file.metadata()?.nlink())).await?)
    }
}
