//! Calls that change names.

use super::act::NAMES;
use super::name_states::{Entry, NameTree, UNKNOWN_INODE, with};
use super::timed_states::TimedStates;
use super::{ClientInstance, FileContent, NameInDir, PrivateDirProgram};
use crate::cluster::call_arguments::{caller, create_mode, name, no_flags, read_write};
use crate::cluster::client_host::Failure;
use gupfs_client::OpenedFile;
use gupfs_proto::meta::RenameMode;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// The expected result of a call that changes names.
type Expected = Result<(), FsError>;

/// Whether the failure depends only on the names: no fault excuses it.
fn is_name_error(failure: &Failure) -> bool {
    let Failure::Refused(refusal) = failure else {
        return false;
    };
    matches!(
        refusal,
        FsError::Exists
            | FsError::NotFound
            | FsError::NotEmpty
            | FsError::IsDirectory
            | FsError::NotDirectory
    )
}

fn is_empty_dir(tree: &NameTree, dir: InodeId) -> bool {
    !tree.keys().any(|(of, _)| *of == dir)
}

fn addition(
    tree: &NameTree,
    position: NameInDir,
    ino: InodeId,
    is_dir: bool,
) -> (Expected, NameTree) {
    let mut after = tree.clone();
    if after.contains_key(&position) {
        return (Err(FsError::Exists), after);
    }
    after.insert(position, Entry { ino, is_dir });
    (Ok(()), after)
}

/// `of_dir`: by rmdir, not by unlink.
fn removal(tree: &NameTree, position: NameInDir, of_dir: bool) -> (Expected, NameTree) {
    let mut after = tree.clone();
    let expected = match tree.get(&position) {
        None => Err(FsError::NotFound),
        Some(entry) if entry.is_dir && !of_dir => Err(FsError::IsDirectory),
        Some(entry) if !entry.is_dir && of_dir => Err(FsError::NotDirectory),
        Some(entry) if entry.is_dir && !is_empty_dir(tree, entry.ino) => Err(FsError::NotEmpty),
        Some(_) => {
            after.remove(&position);
            Ok(())
        }
    };
    (expected, after)
}

fn renaming(tree: &NameTree, from: NameInDir, to: NameInDir) -> (Expected, NameTree) {
    let mut after = tree.clone();
    let expected = match (tree.get(&from), tree.get(&to)) {
        (None, _) => Err(FsError::NotFound),
        (Some(moved), Some(replaced)) if replaced.ino == moved.ino => Ok(()),
        (Some(moved), Some(replaced)) if replaced.is_dir && !moved.is_dir => {
            Err(FsError::IsDirectory)
        }
        (Some(moved), Some(replaced)) if moved.is_dir && !replaced.is_dir => {
            Err(FsError::NotDirectory)
        }
        (Some(_), Some(replaced)) if replaced.is_dir && !is_empty_dir(tree, replaced.ino) => {
            Err(FsError::NotEmpty)
        }
        (Some(moved), _) => {
            after.remove(&from);
            after.insert(to, *moved);
            Ok(())
        }
    };
    (expected, after)
}

impl PrivateDirProgram {
    pub(super) async fn create(&mut self, instance: &ClientInstance<'_>) {
        let position = self.any_name();
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = async {
            let made = client
                .create(
                    &caller,
                    position.0,
                    &text,
                    create_mode(),
                    true,
                    read_write(),
                    no_flags(),
                )
                .await?;
            Ok(made)
        };
        // The program does not know the inode number before the reply. Other programs do not compare numbers.
        let what = format!("create {position:?}");
        let effect = |tree: &NameTree| addition(tree, position, UNKNOWN_INODE, false);
        let Some(OpenedFile { file, attr, .. }) =
            self.call_on_names(instance, what, effect, call).await
        else {
            return;
        };
        let ino = file.ino();
        self.cluster.note_new_inode(&attr);
        instance.client.forget([(ino, 1)]);
        self.renew_names(position, Entry { ino, is_dir: false });
        self.begin_bytes(ino);
        self.open.insert(ino, file);
    }

    pub(super) async fn mkdir(&mut self, instance: &ClientInstance<'_>) {
        let position = (self.dir, self.random.below(NAMES) as u8);
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = client.mkdir(&caller, position.0, &text, create_mode());
        let what = format!("mkdir {position:?}");
        let effect = |tree: &NameTree| addition(tree, position, UNKNOWN_INODE, true);
        let Some(attr) = self.call_on_names(instance, what, effect, call).await else {
            return;
        };
        self.cluster.note_new_inode(&attr);
        instance.client.forget([(attr.ino, 1)]);
        let entry = Entry {
            ino: attr.ino,
            is_dir: true,
        };
        self.renew_names(position, entry);
    }

    /// Replaces the newest state by one with the inode number from the reply.
    fn renew_names(&mut self, position: NameInDir, entry: Entry) {
        let mut with_inode = self.names.now().clone();
        with_inode.insert(position, entry);
        self.names.replace_newest(with_inode.clone());
        let now = self.cluster.event_number();
        let mut published = self.published.lock();
        published.names.begin(now, with_inode);
        published.names.note_reply(now);
    }

    fn begin_bytes(&mut self, ino: InodeId) {
        self.contents.insert(ino, FileContent::default());
        let now = self.cluster.event_number();
        let timed_state = TimedStates::since(now, Arc::default());
        self.published.lock().bytes.insert(ino, timed_state);
    }

    pub(super) async fn rmdir(&mut self, instance: &ClientInstance<'_>) {
        let position = self.any_name();
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = client.rmdir(&caller, position.0, &text);
        let what = format!("rmdir {position:?}");
        let effect = |tree: &NameTree| removal(tree, position, true);
        self.call_on_names(instance, what, effect, call).await;
    }

    pub(super) async fn unlink(&mut self, instance: &ClientInstance<'_>) {
        let position = self.any_name();
        let victim = self.entry(position);
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(position.1));
        let call = client.unlink(&caller, position.0, &text);
        let what = format!("unlink {position:?}");
        let effect = |tree: &NameTree| removal(tree, position, false);
        let removed = self.call_on_names(instance, what, effect, call).await;
        if let (Some(removed), Some(victim)) = (removed, victim) {
            assert_eq!(removed.victim, Some(victim.ino), "c{}", self.host_number);
            self.drop_if_removed(victim.ino);
        }
    }

    pub(super) async fn rename(&mut self, instance: &ClientInstance<'_>) {
        let (from, to) = (self.any_name(), self.any_name());
        if self.may_be_refused_in_two_ways(from, to) {
            return;
        }
        let replaced = self.entry(to);
        let client = instance.client.clone();
        let (caller, old, new) = (caller(), name(from.1), name(to.1));
        let mode = RenameMode::Replace;
        let call = client.rename(&caller, (from.0, &old), (to.0, &new), mode);
        let what = format!("rename {from:?} {to:?}");
        let effect = |tree: &NameTree| renaming(tree, from, to);
        let renamed = self.call_on_names(instance, what, effect, call).await;
        if let (Some(_), Some(replaced)) = (renamed, replaced) {
            self.drop_if_removed(replaced.ino);
        }
    }

    /// Whether the program does not rename `from` to `to`.
    fn may_be_refused_in_two_ways(&self, from: NameInDir, to: NameInDir) -> bool {
        let Some(moved) = self.entry(from) else {
            return false;
        };
        let replaces_full_dir = self
            .entry(to)
            .is_some_and(|entry| entry.is_dir && !is_empty_dir(self.names.now(), entry.ino));
        // Directories keep their parent, so that none moves into itself.
        moved.is_dir && from.0 != to.0
            // Two errors apply, and the server may return either.
            || !moved.is_dir && replaces_full_dir
    }

    pub(super) async fn link(&mut self, instance: &ClientInstance<'_>) {
        let to = self.any_name();
        let files = self.names.now().values().filter(|entry| !entry.is_dir);
        let files: Vec<InodeId> = files.map(|entry| entry.ino).collect();
        if files.is_empty() {
            return;
        }
        let ino = files[self.random.below(files.len() as u64) as usize];
        let client = instance.client.clone();
        let (caller, text) = (caller(), name(to.1));
        let call = client.link(&caller, ino, to.0, &text);
        let what = format!("link {ino} {to:?}");
        let effect = |tree: &NameTree| addition(tree, to, ino, false);
        if let Some(attr) = self.call_on_names(instance, what, effect, call).await {
            let link_count = self
                .names
                .now()
                .values()
                .filter(|entry| entry.ino == ino)
                .count();
            assert_eq!((attr.ino, attr.nlink as usize), (ino, link_count));
            instance.client.forget([(ino, 1)]);
        }
    }

    /// Does a call that changes names and compares its result with `effect`: what it does to a tree of names, and the result for
    /// that tree. Returns the result of a successful call.
    async fn call_on_names<T>(
        &mut self,
        instance: &ClientInstance<'_>,
        what: String,
        effect: impl Fn(&NameTree) -> (Expected, NameTree),
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Option<T> {
        let (expected, after) = effect(self.names.now());
        let (since, power_losses) = (
            self.cluster.millis(),
            self.cluster.fault_record.power_losses(),
        );
        if expected.is_ok() {
            let now = self.cluster.event_number();
            self.published.lock().names.begin(now, after.clone());
        }
        let reply = self.call(instance, call).await;
        self.record(format_args!("{what}: {:?}", reply.as_ref().map(drop)));
        let now = self.cluster.fault_record.power_losses();
        let may_be_undone = power_losses.metadata != now.metadata && !self.session_lives();
        match reply {
            _ if may_be_undone => self.note_unanswered(expected, after),
            Ok(made) if expected.is_ok() => {
                self.names.push(self.cluster.millis(), after);
                let now = self.cluster.event_number();
                self.published.lock().names.note_reply(now);
                return Some(made);
            }
            Ok(made) if self.push_after_late_change(&effect) => return Some(made),
            Err(Failure::Refused(refusal)) if expected == Err(refusal.clone()) => {}
            Err(failure) if !is_name_error(&failure) => {
                self.require_excuse(&what, &failure, since, false);
                self.note_unanswered(expected, after);
            }
            Err(Failure::Refused(_)) if self.expect_late_change() => {}
            reply => panic!(
                "c{} {what}: {:?}, expected {expected:?}",
                self.host_number,
                reply.map(drop)
            ),
        }
        None
    }

    /// A call succeeded that the names known cannot explain: is it explained by a change of a former instance that was made late? Then
    /// both are in the newest state; the next recheck finds them.
    fn push_after_late_change(
        &mut self,
        effect: &impl Fn(&NameTree) -> (Expected, NameTree),
    ) -> bool {
        if !self.may_be_made_late() {
            return false;
        }
        let Some(change) = self.take_late_change() else {
            return false;
        };
        let with_late_change = with(self.names.now(), &change);
        let (Ok(()), after) = effect(&with_late_change) else {
            return false;
        };
        let now = self.cluster.millis();
        self.names.push(now, with_late_change);
        self.names.push(now, after);
        self.must_recheck = true;
        self.published.lock().is_uncertain = true;
        true
    }

    fn note_unanswered(&mut self, expected: Expected, after: NameTree) {
        if expected.is_ok() {
            self.names.mark_unanswered(self.cluster.millis(), after);
        }
        self.must_recheck = true;
        self.published.lock().is_uncertain = true;
    }
}
