//! A copy of a file's bytes, without a way through the program.

use crate::entries::OpenRequest;
use crate::limits::PIECE;
use crate::run_to_end::RunToEnd;
use crate::user_files::UserFiles;
use gupfs_client::WriteOptions;
use gupfs_proto::FsError;

impl UserFiles {
    /// Copies the bytes of one file to another, which is made or emptied first. Holes stay holes only at the end of the file.
    ///
    /// # Errors
    /// Those of `open` for both; `Invalid` for two names of one file; those of reads and writes, after which the copy is not complete.
    pub fn copy_file(&self, from: &[u8], to: &[u8], mode: u32) -> RunToEnd<()> {
        let (this, from, to) = (self.clone(), from.to_vec(), to.to_vec());
        self.run(async move {
            let source = this.open(&from, OpenRequest::read()).await?;
            let request = OpenRequest {
                write: true,
                create: Some(mode),
                ..OpenRequest::default()
            };
            let target = this.open(&to, request).await?;
            if source.ino() == target.ino() {
                return Err(FsError::Invalid);
            }
            target.truncate(0).await?;
            let options = WriteOptions {
                kill_privileges: this.kills_privileges(),
                ..WriteOptions::default()
            };
            let (client, mut at) = (&this.core.client, 0);
            loop {
                let (source, target) = ((source.open_file(), at), (target.open_file(), at));
                match client.copy_range(source, target, PIECE, options).await? {
                    0 => break,
                    copied => at += copied,
                }
            }
            target.close().await?;
            source.close().await
        })
    }
}
