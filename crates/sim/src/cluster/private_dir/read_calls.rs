//! Calls that read names, attributes and bytes.

use super::{ClientInstance, FILE_SIZE_MAX, PrivateDirProgram};
use crate::cluster::call_arguments::{caller, name};
use crate::cluster::client_host::Failure;
use gupfs_client::{EntryName, ReadOptions};
use gupfs_proto::{FsError, InodeId};

impl PrivateDirProgram {
    pub(super) async fn read(&mut self, instance: &ClientInstance<'_>) {
        let Some(ino) = self.any_file() else { return };
        // A power loss while the file is opened counts, too.
        let power_losses = self.cluster.fault_record.power_losses();
        let Some(file) = self.open_once(instance, ino).await else {
            return;
        };
        let since = self.cluster.millis();
        let (at, len) = match self.random.one_in(2) {
            true => (0, 2 * FILE_SIZE_MAX),
            false => (self.random_offset(), self.random_len()),
        };
        let call = instance.client.read(&file, at, len, ReadOptions::default());
        match self.call(instance, call).await {
            Ok(found) if self.lost_nothing_since(power_losses) => {
                let found = found.concat();
                self.record(format_args!("read {ino} {at}+{len}: {}", found.len()));
                let Some(known) = self.contents.get(&ino) else {
                    return;
                };
                let bytes = known.bytes();
                let end = bytes.len().min((at + len) as usize);
                let expected = bytes.get(at as usize..end).unwrap_or_default();
                if found != expected {
                    let mut both = expected.iter().zip(&found);
                    let first_difference = both.position(|(one, other)| one != other);
                    let lengths = (found.len(), expected.len());
                    self.fail_mismatch(
                        ino,
                        format_args!(
                            "read {at}+{len}: {lengths:?} bytes, differ at {first_difference:?}"
                        ),
                    );
                }
            }
            Ok(_) => self.must_recheck = true,
            Err(failure) => self.note_failure(&format!("read {ino}"), &failure, since, false),
        }
    }

    pub(super) async fn list(&mut self, instance: &ClientInstance<'_>) {
        let (dir, caller) = (self.any_dir(), caller());
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let call = instance.client.readdir(&caller, dir, 0, 1000, false);
        match self.call(instance, call).await {
            Ok(listing) if self.lost_nothing_since(power_losses) => {
                let entries = listing.entries.iter();
                let mut found: Vec<(u8, InodeId)> = entries
                    .filter_map(|entry| match &entry.name {
                        EntryName::Name(text) => Some((text.as_bytes()[0] - b'a', entry.ino)),
                        _ => None,
                    })
                    .collect();
                found.sort_unstable();
                let names = self.names.now().iter().filter(|((of, _), _)| *of == dir);
                let expected: Vec<(u8, InodeId)> =
                    names.map(|((_, name), entry)| (*name, entry.ino)).collect();
                if found != expected && !self.expect_late_change() {
                    panic!(
                        "c{} lists {dir}: {found:?}, not {expected:?}",
                        self.host_number
                    );
                }
            }
            Ok(_) => self.must_recheck = true,
            Err(failure) => self.note_failure("readdir", &failure, since, false),
        }
    }

    pub(super) async fn stat(&mut self, instance: &ClientInstance<'_>) {
        let (position, caller) = (self.any_name(), caller());
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        let text = name(position.1);
        let call = instance.client.lookup(&caller, position.0, &text);
        let found = self.call(instance, call).await;
        if !self.lost_nothing_since(power_losses) {
            self.must_recheck = true;
            return;
        }
        let is_other = match (&found, self.entry(position)) {
            (Ok(attr), Some(entry)) => attr.ino != entry.ino,
            (Ok(_), None) | (Err(Failure::Refused(FsError::NotFound)), Some(_)) => true,
            _ => false,
        };
        if is_other && self.expect_late_change() {
            if let Ok(attr) = found {
                instance.client.forget([(attr.ino, 1)]);
            }
            return;
        }
        match (found, self.entry(position)) {
            (Ok(attr), Some(entry)) => {
                instance.client.forget([(attr.ino, 1)]);
                assert_eq!(attr.ino, entry.ino, "c{} {position:?}", self.host_number);
                if let Some(known) = self.contents.get(&entry.ino) {
                    let len = known.len();
                    if attr.size != len {
                        self.fail_mismatch(
                            entry.ino,
                            format_args!("size {}, not {len}", attr.size),
                        );
                    }
                }
            }
            (Err(Failure::Refused(FsError::NotFound)), None) => {}
            (Err(failure), _) => {
                self.note_failure(&format!("lookup {position:?}"), &failure, since, false)
            }
            (Ok(_), None) => panic!("c{}: {position:?} exists", self.host_number),
        }
    }
}
