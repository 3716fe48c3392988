//! Calls that change the bytes of files.

use super::{ClientInstance, FILE_SIZE_MAX, PrivateDirProgram};
use crate::cluster::call_arguments::caller;
use bytes::Bytes;
use gupfs_client::WriteOptions;
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

impl PrivateDirProgram {
    pub(super) async fn write(&mut self, instance: &ClientInstance<'_>, appends: bool) {
        let Some(ino) = self.any_file() else { return };
        let Some(file) = self.open_once(instance, ino).await else {
            return;
        };
        let Some(known) = self.contents.get(&ino) else {
            return;
        };
        let mut after = known.bytes().to_vec();
        let at = match appends {
            true => after.len() as u64,
            false => self.random_offset(),
        };
        let mut data = vec![0; self.random_len() as usize];
        let len = data.len() as u64;
        if at + len > FILE_SIZE_MAX {
            return;
        }
        self.random.fill(&mut data);
        after.resize(after.len().max((at + len) as usize), 0);
        after[at as usize..(at + len) as usize].copy_from_slice(&data);
        let whence = match appends {
            true => WritePosition::End,
            false => WritePosition::Offset(at),
        };
        let client = instance.client.clone();
        let mut data = Bytes::from(data);
        let call = async {
            // A program continues after a short write; if it cannot, it learns why.
            let mut began = None;
            while !data.is_empty() {
                let next = match began {
                    Some(from) if !appends => WritePosition::Offset(from + len - data.len() as u64),
                    _ => whence,
                };
                let done = client
                    .write(&file, next, data.clone(), WriteOptions::default())
                    .await?;
                began.get_or_insert(done.offset);
                data = data.split_off(done.written as usize);
            }
            Ok(began)
        };
        let what = format!("write {ino} {at}+{len} appends {appends}");
        let offset = self.call_on_bytes(instance, what, ino, after, call).await;
        if let Some(offset) = offset
            && offset != Some(at)
        {
            self.fail_mismatch(ino, format_args!("{at} was written at {offset:?}"));
        }
    }

    pub(super) async fn truncate(&mut self, instance: &ClientInstance<'_>) {
        let Some(ino) = self.any_file() else { return };
        let Some(_file) = self.open_once(instance, ino).await else {
            return;
        };
        let Some(known) = self.contents.get(&ino) else {
            return;
        };
        let to = match self.random.one_in(3) {
            true => 0,
            false => self.random_offset(),
        };
        let mut after = known.bytes().to_vec();
        after.resize(to as usize, 0);
        let client = instance.client.clone();
        let caller = caller();
        let call = client.truncate(&caller, ino, to, true, false);
        let what = format!("truncate {ino} {to}");
        if let Some(attr) = self.call_on_bytes(instance, what, ino, after, call).await {
            assert_eq!(attr.size, to);
        }
    }

    async fn call_on_bytes<T>(
        &mut self,
        instance: &ClientInstance<'_>,
        what: String,
        ino: InodeId,
        after: Vec<u8>,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Option<T> {
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let now = self.cluster.event_number();
        if let Some(timed_states) = self.published.lock().bytes.get_mut(&ino) {
            timed_states.begin(now, Arc::new(after.clone()));
        }
        let reply = self.call(instance, call).await;
        let refused = reply.as_ref().map(drop);
        self.record(format_args!("{what}: {refused:?}"));
        let known = self.contents.get_mut(&ino).expect("a known file");
        known.push(after);
        match reply {
            Ok(reply) => {
                let now = self.cluster.event_number();
                if let Some(timed_states) = self.published.lock().bytes.get_mut(&ino) {
                    timed_states.note_reply(now);
                }
                match self.lost_nothing_since(power_losses) {
                    true => return Some(reply),
                    // A power loss came during the call, and may have undone the change.
                    false => self.must_recheck = true,
                }
            }
            Err(failure) => {
                known.mark_unanswered();
                self.note_failure(&what, &failure, since, false);
            }
        }
        None
    }
}
