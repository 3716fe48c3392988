//! Files whose inodes are lost, made again from their objects; and what objects say of files that are older than they.

use super::editor::RecordEditor;
use super::{SalvageLoss, Salvaged};
use crate::check::Store;
use crate::check::objects::ObjectProblem;
use crate::exit::CliResult;
use gupfs_namespace::salvage::{FoundObject, file_size, rebuild_file};
use gupfs_namespace::{FileBody, Inode, InodeBody, RecordKey};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence};
use std::collections::{BTreeMap, BTreeSet};

/// Objects that no inode knows, by the inode that they name.
#[derive(Default)]
pub struct ObjectsWithoutInode(BTreeMap<InodeId, Vec<(OstId, ObjectId)>>);

impl ObjectsWithoutInode {
    pub fn add(&mut self, ost: OstId, object: ObjectId) {
        self.0.entry(object.ino).or_default().push((ost, object));
    }

    pub fn inodes(&self) -> impl Iterator<Item = InodeId> + '_ {
        self.0.keys().copied()
    }

    /// Gives each object an inode where that can be: a new one, or its own if that has no bytes yet. Returns whether records
    /// were changed.
    pub async fn rebuild(
        &self,
        store: &Store,
        editor: &RecordEditor<'_>,
        done: &mut Salvaged,
    ) -> CliResult<bool> {
        let mut changed = false;
        for (ino, objects) in &self.0 {
            let found = look_at(store, objects).await;
            if found.is_empty() {
                continue;
            }
            let made = match editor.get::<Inode>(&RecordKey::inode(*ino))? {
                None => self.make(*ino, &found, editor, done).await?,
                Some(inode) => adopt(*ino, inode, &found, editor, done).await?,
            };
            changed |= made;
        }
        Ok(changed)
    }

    async fn make(
        &self,
        ino: InodeId,
        found: &[FoundObject],
        editor: &RecordEditor<'_>,
        done: &mut Salvaged,
    ) -> CliResult<bool> {
        let Some(inode) = rebuild_file(ino, found) else {
            done.lost.push(
                SalvageLoss::new(
                    "ObjectsLeft",
                    format!(
                        "{} objects of inode {:x} fit into no file: they stay where they are",
                        found.len(),
                        ino.0
                    ),
                )
                .of(ino),
            );
            return Ok(false);
        };
        done.found.push(
            SalvageLoss::new(
                "MadeFromObjects",
                format!(
                    "inode {:x} was made again from its objects: {} bytes of user {}, attributes are lost",
                    ino.0, inode.size, inode.uid
                ),
            )
            .of(ino),
        );
        editor.put(&RecordKey::inode(ino), &inode);
        editor.unconfirmed(ino);
        editor.commit().await?;
        Ok(true)
    }
}

/// The file is older than these objects. If it had no bytes yet, they are its bytes. Else they stay unknown, and no component that it
/// gets may be called as theirs was.
async fn adopt(
    ino: InodeId,
    mut inode: Inode,
    found: &[FoundObject],
    editor: &RecordEditor<'_>,
    done: &mut Salvaged,
) -> CliResult<bool> {
    let InodeBody::File(own) = &mut inode.body else {
        return Ok(false);
    };
    let newest = found.iter().map(|object| object.generation.0).max();
    let next = newest.unwrap_or(0) + 1;
    let inline = own.inline.len() as u64;
    // Bytes that leave an inode are whole in its objects before the inode forgets them.
    let made = (own.layout.is_empty())
        .then(|| rebuild_file(ino, found))
        .flatten()
        .filter(|made| made.size >= inline);
    let Some(Inode {
        body: InodeBody::File(FileBody { layout, .. }),
        size,
        blocks,
        ..
    }) = made
    else {
        if own.next_generation >= next {
            return Ok(false);
        }
        own.next_generation = next;
        editor.put(&RecordKey::inode(ino), &inode);
        editor.commit().await?;
        return Ok(true);
    };
    own.layout = layout;
    own.inline = Default::default();
    own.next_generation = own.next_generation.max(next);
    inode.size = inode.size.max(size);
    inode.blocks = blocks;
    done.found.push(
        SalvageLoss::new(
            "BytesFromObjects",
            format!(
                "inode {:x} has the bytes that its objects have: {size}",
                ino.0
            ),
        )
        .of(ino),
    );
    editor.put(&RecordKey::inode(ino), &inode);
    editor.unconfirmed(ino);
    editor.commit().await?;
    Ok(true)
}

/// An object that its inode takes for never made: the file was written after what is kept of it.
pub async fn announce(
    store: &Store,
    editor: &RecordEditor<'_>,
    ost: OstId,
    object: ObjectId,
) -> CliResult<bool> {
    let Some(mut inode) = editor.get::<Inode>(&RecordKey::inode(object.ino))? else {
        return Ok(false);
    };
    let found = look_at(store, &[(ost, object)]).await;
    let InodeBody::File(own) = &mut inode.body else {
        return Ok(false);
    };
    let place = own.layout.objects(object.ino);
    let place = place
        .filter(|(.., named, presence)| *named == object && *presence == Presence::Never)
        .map(|(component, stripe, ..)| (component, stripe))
        .next();
    let Some((component, stripe)) = place else {
        return Ok(false);
    };
    own.layout.components[component]
        .presence
        .set(stripe, Presence::Maybe);
    let end = file_size(&own.layout, &found);
    inode.size = inode.size.max(end);
    editor.put(&RecordKey::inode(object.ino), &inode);
    editor.unconfirmed(object.ino);
    editor.commit().await?;
    Ok(true)
}

/// Files that miss an object. One of which every object is gone, from targets that were looked at, was removed after what is kept of the
/// metadata: it goes. What is left of the others can be read, and what is missing is an error.
#[derive(Default)]
pub struct FilesWithoutObjects(BTreeSet<InodeId>);

impl FilesWithoutObjects {
    pub fn add(&mut self, problem: &ObjectProblem) {
        if let ObjectProblem::Lost { object, .. } = problem {
            self.0.insert(object.ino);
        }
    }

    pub async fn remove(
        &self,
        store: &Store,
        editor: &RecordEditor<'_>,
        done: &mut Salvaged,
    ) -> CliResult<bool> {
        let mut changed = false;
        for ino in &self.0 {
            let Some(inode) = editor.get::<Inode>(&RecordKey::inode(*ino))? else {
                continue;
            };
            let InodeBody::File(own) = &inode.body else {
                continue;
            };
            if !are_gone(store, *ino, own).await {
                continue;
            }
            let text = format!(
                "inode {:x} has none of its objects left: its name goes",
                ino.0
            );
            done.lost.push(SalvageLoss::new("FileGone", text).of(*ino));
            editor.remove(&RecordKey::inode(*ino));
            editor.commit().await?;
            changed = true;
        }
        Ok(changed)
    }
}

/// Whether the targets of all its objects say that they have none of them.
async fn are_gone(store: &Store, ino: InodeId, file: &FileBody) -> bool {
    for (_, _, ost, object, presence) in file.layout.objects(ino) {
        if presence == Presence::Never {
            continue;
        }
        let target = store.targets.iter().find(|(id, _)| *id == ost);
        let Some((_, Ok(target))) = target else {
            return false;
        };
        if !matches!(target.stat(object).await, Ok(None)) {
            return false;
        }
    }
    true
}

async fn look_at(store: &Store, objects: &[(OstId, ObjectId)]) -> Vec<FoundObject> {
    let mut found = Vec::new();
    for (ost, object) in objects {
        let target = store.targets.iter().find(|(id, _)| id == ost);
        let Some((_, Ok(target))) = target else {
            continue;
        };
        let Ok(Some(stat)) = target.stat(*object).await else {
            continue;
        };
        found.push(FoundObject {
            ost: *ost,
            generation: object.generation,
            stripe: object.stripe,
            stat,
            owner: target.owner(*object).await.ok().flatten(),
        });
    }
    found.sort_by_key(|object| (object.generation.0, object.stripe));
    // The same object on two targets: one of them is in the wrong place.
    found.dedup_by_key(|object| (object.generation.0, object.stripe));
    found
}
