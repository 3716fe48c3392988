//! A test user of a client: short functions for the most frequent calls.

use bytes::Bytes;
use gupfs_client::{Client, OpenFile, OpenFileFlags, ReadOptions, WriteOptions};
use gupfs_platform::fake::FakePlatform;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode, WritePosition};
use gupfs_proto::{Attr, Caller, FsError, InodeId, Name};
use std::sync::Arc;

#[derive(Clone)]
pub struct User {
    pub platform: FakePlatform,
    pub client: Arc<Client>,
}

impl User {
    pub async fn create(&self, text: &str) -> Arc<OpenFile> {
        self.try_create(text).await.unwrap()
    }

    pub async fn try_create(&self, text: &str) -> Result<Arc<OpenFile>, FsError> {
        self.try_create_in(self.client.root(), text).await
    }

    pub async fn try_create_in(&self, dir: InodeId, text: &str) -> Result<Arc<OpenFile>, FsError> {
        let name = name(text);
        let opened = self
            .client
            .create(&me(), dir, &name, create_mode(), true, open_mode(), flags())
            .await;
        opened.map(|opened| opened.file)
    }

    pub async fn open(&self, ino: InodeId) -> Arc<OpenFile> {
        self.client
            .open(&me(), ino, open_mode(), flags())
            .await
            .unwrap()
            .file
    }

    pub async fn attr(&self, ino: InodeId) -> Attr {
        self.client.getattr(&me(), ino).await.unwrap()
    }

    pub async fn close(&self, file: Arc<OpenFile>) {
        let id = file.id();
        drop(file);
        self.client.release(id).await.unwrap();
    }

    /// Writes all bytes.
    pub async fn write(&self, file: &OpenFile, at: u64, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        let len = bytes.len() as u64;
        let done = self
            .client
            .write(
                file,
                WritePosition::Offset(at),
                bytes,
                WriteOptions::default(),
            )
            .await
            .unwrap();
        assert_eq!((done.written, done.offset), (len, at));
    }

    pub async fn try_write(&self, file: &OpenFile, at: u64, len: usize) -> Result<u64, FsError> {
        let bytes = Bytes::from(vec![b'x'; len]);
        let done = self
            .client
            .write(
                file,
                WritePosition::Offset(at),
                bytes,
                WriteOptions::default(),
            )
            .await;
        done.map(|done| done.written)
    }

    pub async fn read(&self, file: &OpenFile, at: u64, len: u64) -> Vec<u8> {
        self.client
            .read(file, at, len, ReadOptions::default())
            .await
            .unwrap()
            .concat()
    }
}

pub fn me() -> Caller {
    Caller::new(1000, 1000, [])
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn create_mode() -> CreateMode {
    CreateMode {
        mode: 0o644,
        umask: 0o022,
    }
}

pub fn open_mode() -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate: false,
        kill_privileges: false,
    }
}

pub fn flags() -> OpenFileFlags {
    OpenFileFlags::default()
}
