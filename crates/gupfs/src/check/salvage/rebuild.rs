//! Rebuilds files from their objects: lost inodes, and inodes that are older than their objects.

use super::editor::RecordEditor;
use super::{SalvageLoss, Salvaged};
use crate::check::Store;
use crate::check::objects::ObjectProblem;
use crate::exit::CliResult;
use gupfs_namespace::salvage::{FoundObject, file_size, rebuild_file};
use gupfs_namespace::{FileBody, Inode, InodeBody, RecordKey};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence};
use std::collections::{BTreeMap, BTreeSet};

/// Objects without inode, by the inode number in their names.
#[derive(Default)]
pub struct ObjectsWithoutInode(BTreeMap<InodeId, Vec<(OstId, ObjectId)>>);

impl ObjectsWithoutInode {
    pub fn add(&mut self, ost: OstId, object: ObjectId) {
        self.0.entry(object.ino).or_default().push((ost, object));
    }

    pub fn inodes(&self) -> impl Iterator<Item = InodeId> + '_ {
        self.0.keys().copied()
    }

    /// Puts the objects into inodes where that is possible: a new one, or their own if it has no objects. Returns whether records were
    /// changed.
    ///
    /// # Errors
    /// If the new store cannot be read or written.
    pub async fn rebuild(
        &self,
        store: &Store,
        editor: &RecordEditor<'_>,
        done: &mut Salvaged,
    ) -> CliResult<bool> {
        let mut changed = false;
        for (ino, objects) in &self.0 {
            let found = find_objects(store, objects).await;
            if found.is_empty() {
                continue;
            }
            let rebuilt = match editor.get::<Inode>(&RecordKey::inode(*ino))? {
                None => self.rebuild_inode(*ino, &found, editor, done).await?,
                Some(inode) => adopt(*ino, inode, &found, editor, done).await?,
            };
            changed |= rebuilt;
        }
        Ok(changed)
    }

    async fn rebuild_inode(
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
                        "{} objects of inode {:x} do not form a file: they stay on their OSTs",
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
                    "inode {:x} was rebuilt from its objects: {} bytes of user {}, attributes are lost",
                    ino.0, inode.size, inode.uid
                ),
            )
            .of(ino),
        );
        editor.put(&RecordKey::inode(ino), &inode);
        editor.add_unconfirmed(ino);
        editor.commit().await?;
        Ok(true)
    }
}

/// The inode is older than these objects. If its layout is empty, they become its objects. Otherwise they stay without inode, and the
/// inode's next component gets a generation above theirs.
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
    // A spill writes all inline bytes into objects before the inode drops them, so complete objects are at least as long.
    let rebuilt = (own.layout.is_empty())
        .then(|| rebuild_file(ino, found))
        .flatten()
        .filter(|rebuilt| rebuilt.size >= inline);
    let Some(Inode {
        body: InodeBody::File(FileBody { layout, .. }),
        size,
        blocks,
        ..
    }) = rebuilt
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
            format!("inode {:x} got its {size} bytes from its objects", ino.0),
        )
        .of(ino),
    );
    editor.put(&RecordKey::inode(ino), &inode);
    editor.add_unconfirmed(ino);
    editor.commit().await?;
    Ok(true)
}

/// Records in an inode that an object exists which the inode lists as never created: the file was written after its kept record.
///
/// # Errors
/// If the new store cannot be read or written.
pub async fn mark_as_existing(
    store: &Store,
    editor: &RecordEditor<'_>,
    ost: OstId,
    object: ObjectId,
) -> CliResult<bool> {
    let Some(mut inode) = editor.get::<Inode>(&RecordKey::inode(object.ino))? else {
        return Ok(false);
    };
    let found = find_objects(store, &[(ost, object)]).await;
    let InodeBody::File(own) = &mut inode.body else {
        return Ok(false);
    };
    let position = own.layout.objects(object.ino);
    let position = position
        .filter(|(.., named, presence)| *named == object && *presence == Presence::Never)
        .map(|(component, stripe, ..)| (component, stripe))
        .next();
    let Some((component, stripe)) = position else {
        return Ok(false);
    };
    own.layout.components[component]
        .presence
        .set(stripe, Presence::Maybe);
    let end = file_size(&own.layout, &found);
    inode.size = inode.size.max(end);
    editor.put(&RecordKey::inode(object.ino), &inode);
    editor.add_unconfirmed(object.ino);
    editor.commit().await?;
    Ok(true)
}

/// Files with missing objects. A file of which no object exists on scanned targets was removed after its kept record: its inode is
/// removed. The others stay; reads of their missing parts fail.
#[derive(Default)]
pub struct FilesWithoutObjects(BTreeSet<InodeId>);

impl FilesWithoutObjects {
    pub fn add(&mut self, problem: &ObjectProblem) {
        if let ObjectProblem::Lost { object, .. } = problem {
            self.0.insert(object.ino);
        }
    }

    /// Removes the inodes of files without any object. Returns whether records were changed.
    ///
    /// # Errors
    /// If the new store cannot be read or written.
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
            if !has_no_objects(store, *ino, own).await {
                continue;
            }
            let text = format!(
                "inode {:x} has none of its objects left: it is removed",
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

/// Whether the targets of all objects of a file were opened and have none of them.
async fn has_no_objects(store: &Store, ino: InodeId, file: &FileBody) -> bool {
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

/// The objects that exist, with their attributes.
async fn find_objects(store: &Store, objects: &[(OstId, ObjectId)]) -> Vec<FoundObject> {
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
    // An object that is on two targets counts once.
    found.dedup_by_key(|object| (object.generation.0, object.stripe));
    found
}
