//! One call, with a record of its request and its reply.

use super::{Files, Judge, mode_of, time_of};
use crate::cluster::arguments::ONE_OBJECT;
use crate::cluster::arguments::{both_ways, flags, me};
use crate::cluster::machine::{Failure, With};
use gupfs_client::{OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::FsError;
use gupfs_proto::meta::WritePosition;
use gupfs_verify::history::{Answer, Call, Flavour, tag};
use gupfs_verify::subject::Range;
use std::sync::Arc;

/// Offsets where calls begin and end: the limits of inline data, blocks, stripe units and objects, and their
/// neighbours.
const BORDERS: [u64; 14] = [
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
const LONG: u64 = 80 << 10;

/// The lock flavour: the locks belong to one descriptor, as long as it is open.
const FLAVOUR: Flavour = Flavour::Session;

impl Judge {
    pub(super) async fn act(&mut self, with: With<'_>, files: Files) {
        let call = self.next();
        let Some(file) = self.opened(with, files).await else {
            return;
        };
        let (worker, since) = (self.machine as u16, self.site.millis());
        let begins = (worker, self.site.moment());
        let asked = self.site.judged.lock().ask(files, begins, call);
        let Some((asked, call)) = asked else { return };
        let answer = self.one(with, files, &file, call).await;
        self.site.judged.lock().ended();
        let end = self.site.moment();
        match answer {
            Ok(answer) => {
                self.site
                    .say(format_args!("c{worker} judged {}", call.name()));
                // If a power loss came during the call, its effect may be undone.
                if self.are_there(files) {
                    self.site.judged.lock().answered(&asked, answer, end);
                }
            }
            // A power loss took the files; the next history has others.
            Err(_) if !self.are_there(files) => {}
            Err(failure) => {
                if matches!(failure, Failure::Refused(FsError::Stale)) {
                    self.let_go(with);
                }
                self.excuse(call.name(), &failure, since);
            }
        }
    }

    fn next(&self) -> Call {
        let range = self.range();
        let to = self.border();
        match self.random.below(20) {
            0..7 => Call::Write {
                range,
                tag: 0, // set once the record has a number
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
                let seconds = 1_000_000_001 + self.site.value();
                Call::SetTime { seconds }
            }
            _ => Call::Stat,
        }
    }

    fn border(&self) -> u64 {
        BORDERS[self.random.below(BORDERS.len() as u64) as usize]
    }

    fn range(&self) -> Range {
        loop {
            let (one, other) = (self.border(), self.border());
            let (from, to) = (one.min(other), one.max(other));
            if from < to && to - from <= LONG {
                return Range { from, to };
            }
        }
    }

    async fn opened(&mut self, with: With<'_>, files: Files) -> Option<Arc<OpenFile>> {
        let known = self.open.as_ref();
        if let Some(file) = known.filter(|file| file.ino() == files.bytes) {
            return Some(file.clone());
        }
        self.let_go(with);
        let (since, me) = (self.site.millis(), me());
        let opened = with.client.open(&me, files.bytes, both_ways(), flags());
        match self.call(with, opened).await {
            Ok(opened) => {
                self.open = Some(opened.file.clone());
                Some(opened.file)
            }
            // A power loss took the file.
            Err(_) if !self.are_there(files) => None,
            Err(failure) => {
                self.excuse("open", &failure, since);
                None
            }
        }
    }

    async fn one(
        &self,
        with: With<'_>,
        files: Files,
        file: &OpenFile,
        call: Call,
    ) -> Result<Answer, Failure> {
        let (client, me) = (with.client, me());
        Ok(match call {
            Call::Write { range, tag, .. } => {
                let bytes = tag::fill(tag, range.from, range.to);
                let at = WritePosition::Offset(range.from);
                let write = client.write(file, at, bytes.into(), WriteOptions::default());
                let done = self.call(with, write).await?;
                if done.written != range.to - range.from {
                    return Err(Failure::Refused(FsError::NoSpace));
                }
                Answer::Done
            }
            Call::Read { range, .. } => {
                let len = range.to - range.from;
                let read = client.read(file, range.from, len, ReadOptions::default());
                let bytes = self.call(with, read).await?.concat();
                Answer::Bytes {
                    count: bytes.len() as u64,
                    runs: tag::read(&bytes, range.from),
                }
            }
            Call::Truncate { to } => {
                let cut = client.truncate_open(&me, file, to, false);
                self.call(with, cut).await?;
                Answer::Done
            }
            Call::SetMode { mode } => {
                self.set(with, files.attrs, mode_of(mode)).await?;
                Answer::Done
            }
            Call::SetTime { seconds } => {
                self.set(with, files.attrs, time_of(seconds)).await?;
                Answer::Done
            }
            Call::Size { .. } => {
                let attr = self.call(with, client.getattr(&me, files.bytes)).await?;
                Answer::Size(attr.size)
            }
            _ => {
                let attr = self.call(with, client.getattr(&me, files.attrs)).await?;
                Answer::Attributes {
                    mode: u32::from(attr.mode.0),
                    seconds: attr.mtime.secs as u64,
                }
            }
        })
    }
}
