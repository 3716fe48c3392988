//! One call, with a record of its request and its reply.

use super::{Files, HistoryProgram, mode_of, time_of};
use crate::cluster::call_arguments::ONE_OBJECT;
use crate::cluster::call_arguments::{caller, no_flags, read_write};
use crate::cluster::client_host::{ClientInstance, Failure};
use gupfs_client::{OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::FsError;
use gupfs_proto::meta::WritePosition;
use gupfs_verify::history::{Answer, Call, Flavour, tag};
use gupfs_verify::subject::Range;
use std::sync::Arc;

/// Offsets where calls begin and end: the limits of inline data, blocks, stripe units and objects, and offsets near them.
const BOUNDARIES: [u64; 14] = [
    0,
    24,
    2048,
    4096 - 40,
    4096,
    4096 + 24,
    (64 << 10) - 72,
    64 << 10,
    (64 << 10) + 512,
    ONE_OBJECT - 24,
    ONE_OBJECT,
    ONE_OBJECT + 4096,
    ONE_OBJECT + (64 << 10),
    ONE_OBJECT + (128 << 10),
];

/// The most that one call reads or writes.
const CALL_LENGTH_MAX: u64 = 80 << 10;

/// The checker's flavour of calls through one descriptor.
const FLAVOUR: Flavour = Flavour::Session;

impl HistoryProgram {
    pub(super) async fn act(&mut self, instance: ClientInstance<'_>, files: Files) {
        let call = self.random_call();
        let Some(file) = self.open_once(instance, files).await else {
            return;
        };
        let (worker, since) = (self.host_number as u16, self.cluster.millis());
        let begins = (worker, self.cluster.event_number());
        let call_record = self
            .cluster
            .call_history
            .lock()
            .begin_call(files, begins, call);
        let Some((call_record, call)) = call_record else {
            return;
        };
        let reply = self.call_once(instance, files, &file, call).await;
        self.cluster.call_history.lock().end_call();
        let end = self.cluster.event_number();
        match reply {
            Ok(reply) => {
                let (asked, answered) = {
                    let history = self.cluster.call_history.lock();
                    history.describe(&call_record, &reply)
                };
                self.cluster.record(format_args!(
                    "c{worker} call history: {} to {end} {asked}: {answered}",
                    begins.1
                ));
                // A power loss during the call may have undone its effect, so the reply counts only if the files are intact.
                if self.files_are_intact(files) {
                    self.cluster
                        .call_history
                        .lock()
                        .record_reply(&call_record, reply, end);
                }
            }
            // A power loss undid the files; the next history has new ones.
            Err(_) if !self.files_are_intact(files) => {}
            Err(failure) => {
                if matches!(failure, Failure::Refused(FsError::Stale)) {
                    self.close_open_file(instance);
                }
                self.require_excuse(call.name(), &failure, since);
            }
        }
    }

    fn random_call(&self) -> Call {
        let range = self.random_range();
        let to = self.random_boundary();
        match self.random.below(20) {
            0..7 => Call::Write {
                range,
                tag: 0, // set when the record gets its number
                flavour: FLAVOUR,
            },
            7..12 => Call::Read {
                range,
                flavour: FLAVOUR,
            },
            12 | 13 => Call::Truncate { to },
            14 | 15 => Call::Size { flavour: FLAVOUR },
            16 => {
                let mode = 0o600 | self.random.below(0o200) as u32;
                Call::SetMode { mode }
            }
            17 => {
                let seconds = 1_000_000_001 + self.cluster.value();
                Call::SetTime { seconds }
            }
            _ => Call::Stat,
        }
    }

    fn random_boundary(&self) -> u64 {
        BOUNDARIES[self.random.below(BOUNDARIES.len() as u64) as usize]
    }

    fn random_range(&self) -> Range {
        loop {
            let (call_once, other) = (self.random_boundary(), self.random_boundary());
            let (from, to) = (call_once.min(other), call_once.max(other));
            if from < to && to - from <= CALL_LENGTH_MAX {
                return Range { from, to };
            }
        }
    }

    async fn open_once(
        &mut self,
        instance: ClientInstance<'_>,
        files: Files,
    ) -> Option<Arc<OpenFile>> {
        let known = self.open.as_ref();
        if let Some(file) = known.filter(|file| file.ino() == files.bytes) {
            return Some(file.clone());
        }
        self.close_open_file(instance);
        let (since, caller) = (self.cluster.millis(), caller());
        let opened = instance
            .client
            .open(&caller, files.bytes, read_write(), no_flags());
        match self.call(instance, opened).await {
            Ok(opened) => {
                self.open = Some(opened.file.clone());
                Some(opened.file)
            }
            // A power loss undid the file.
            Err(_) if !self.files_are_intact(files) => None,
            Err(failure) => {
                self.require_excuse("open", &failure, since);
                None
            }
        }
    }

    async fn call_once(
        &self,
        instance: ClientInstance<'_>,
        files: Files,
        file: &OpenFile,
        call: Call,
    ) -> Result<Answer, Failure> {
        let (client, caller) = (instance.client, caller());
        Ok(match call {
            Call::Write { range, tag, .. } => {
                let bytes = tag::fill(tag, range.from, range.to);
                let at = WritePosition::Offset(range.from);
                let write = client.write(file, at, bytes.into(), WriteOptions::default());
                let done = self.call(instance, write).await?;
                if done.written != range.to - range.from {
                    return Err(Failure::ShortWrite);
                }
                Answer::Done
            }
            Call::Read { range, .. } => {
                let len = range.to - range.from;
                let read = client.read(file, range.from, len, ReadOptions::default());
                let bytes = self.call(instance, read).await?.concat();
                Answer::Bytes {
                    count: bytes.len() as u64,
                    runs: tag::read(&bytes, range.from),
                }
            }
            Call::Truncate { to } => {
                let truncate = client.truncate_open(&caller, file, to, false);
                self.call(instance, truncate).await?;
                Answer::Done
            }
            Call::SetMode { mode } => {
                self.set_attributes(instance, files.attrs, mode_of(mode))
                    .await?;
                Answer::Done
            }
            Call::SetTime { seconds } => {
                self.set_attributes(instance, files.attrs, time_of(seconds))
                    .await?;
                Answer::Done
            }
            Call::Size { .. } => {
                let attr = self
                    .call(instance, client.getattr(&caller, files.bytes))
                    .await?;
                Answer::Size(attr.size)
            }
            _ => {
                let attr = self
                    .call(instance, client.getattr(&caller, files.attrs))
                    .await?;
                Answer::Attributes {
                    mode: u32::from(attr.mode.0),
                    seconds: attr.mtime.secs as u64,
                }
            }
        })
    }
}
