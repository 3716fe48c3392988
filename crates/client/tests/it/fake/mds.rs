//! An in-memory metadata server without permissions: enough names to find files again, and the complete protocol for size, data
//! and objects.

use super::ost::FakeOst;
use super::{LayoutShape, TARGETS, yield_at_random};
use bytes::{Bytes, BytesMut};
use gupfs_platform::fake::{FakeClock, FakeRandom};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::layout::{ComponentKind, ComponentState};
use gupfs_proto::limits::{FILE_SIZE_MAX, INLINE_MAX};
use gupfs_proto::meta::*;
use gupfs_proto::*;
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

pub struct FakeMds {
    clock: FakeClock,
    dice: FakeRandom,
    ost: Arc<FakeOst>,
    shape: LayoutShape,
    pub state: Mutex<FakeMdsState>,
    pub release_delayed: Notify,
}

#[derive(Default)]
pub struct FakeMdsState {
    pub inodes: BTreeMap<InodeId, FakeInode>,
    pub entries: BTreeMap<(InodeId, Name), InodeId>,
    pub orphans: BTreeSet<InodeId>,
    pub seq: u64,
    pub durable: u64,
    session: u64,
    counter: u64,
    /// The last sequence of each slot, and the slots in use.
    slots: BTreeMap<Slot, u64>,
    in_use: BTreeSet<Slot>,
    /// Names of the requested operations.
    pub journal: Vec<&'static str>,
    /// Errors by operation, each returned once.
    pub errors: Vec<(&'static str, FsError)>,
    /// Operations that are done, but answered only when `release_delayed` is notified: once each.
    pub delayed: Vec<&'static str>,
}

#[derive(Clone)]
pub struct FakeInode {
    pub attr: Attr,
    pub layout: Layout,
    pub inline: Bytes,
    pub writers: BTreeSet<SessionId>,
    next_generation: u32,
}

impl FakeMds {
    pub fn new(
        clock: FakeClock,
        dice: FakeRandom,
        ost: Arc<FakeOst>,
        shape: LayoutShape,
    ) -> Arc<FakeMds> {
        let mds = FakeMds {
            clock,
            dice,
            ost,
            shape,
            state: Mutex::default(),
            release_delayed: Notify::new(),
        };
        mds.new_inode(&mut mds.state.lock(), FileKind::Directory);
        Arc::new(mds)
    }

    pub fn inode(&self, ino: InodeId) -> FakeInode {
        self.state.lock().inodes[&ino].clone()
    }

    pub fn exists(&self, ino: InodeId) -> bool {
        self.state.lock().inodes.contains_key(&ino)
    }

    /// What the real server does at its start: it ends all sessions.
    pub fn recover(&self) {
        let mut state = self.state.lock();
        state.slots.clear();
        state.in_use.clear();
        let orphans: Vec<InodeId> = std::mem::take(&mut state.orphans).into_iter().collect();
        for ino in orphans {
            self.purge(&mut state, ino);
        }
        for inode in state.inodes.values_mut() {
            if !inode.writers.is_empty() {
                inode.writers.clear();
                self.recover_writer(inode);
            }
        }
    }

    fn recover_writer(&self, inode: &mut FakeInode) {
        let ino = inode.attr.ino;
        let objects: Vec<_> = inode
            .layout
            .objects(ino)
            .map(|(c, s, _, object, _)| (c, s, object))
            .collect();
        let mut found = self.ost.state.lock();
        if !inode.inline.is_empty() {
            for (.., object) in objects {
                found.objects.remove(&object);
            }
            inode.layout = Layout::default();
            return;
        }
        inode.attr.blocks = 0;
        for (component, stripe, object) in objects {
            let component = &mut inode.layout.components[component];
            match found.objects.get(&object) {
                None => {
                    assert_ne!(
                        component.presence.get(stripe),
                        Presence::Present,
                        "{object} was lost"
                    );
                    component.presence.set(stripe, Presence::Never);
                }
                Some(it) => {
                    component.presence.set(stripe, Presence::Present);
                    inode.attr.size = inode.attr.size.max(component.file_size(stripe, it.size));
                    inode.attr.blocks += it.stat().blocks;
                }
            }
        }
        inode.attr.change += 1;
    }

    fn apply(&self, request: &MetaRequest) -> Result<MetaReplyBody, FsError> {
        let mut state = self.state.lock();
        state.journal.push(request.op.name());
        if let Some(index) = state
            .errors
            .iter()
            .position(|(name, _)| *name == request.op.name())
        {
            return Err(state.errors.remove(index).1);
        }
        assert_eq!(request.slot_seq.is_some(), request.op.changes());
        if request.op.changes() {
            state.seq += 1;
        }
        let now = self.clock.now();
        match &request.op {
            MetaOp::OpenSession { .. } => {
                state.session += 1;
                Ok(MetaReplyBody::Session {
                    session: SessionId(state.session),
                    instance: OwnerEpoch(1),
                    session_capability: None,
                })
            }
            MetaOp::CloseSession | MetaOp::Replay { .. } => Ok(MetaReplyBody::Done),
            MetaOp::Renew => Ok(MetaReplyBody::Renewed {
                session_capability: None,
            }),
            MetaOp::Lock(_) => Err(FsError::NotSupported),
            MetaOp::Sync { upto } => {
                assert!(upto.0 <= state.seq);
                state.durable = state.seq;
                Ok(MetaReplyBody::Synced)
            }
            MetaOp::StatFs => Ok(MetaReplyBody::StatFs(StatFs {
                inodes: state.inodes.len() as u64,
                purging: 0,
            })),
            MetaOp::Lookup { dir, name } => {
                let ino = *state
                    .entries
                    .get(&(*dir, name.clone()))
                    .ok_or(FsError::NotFound)?;
                Ok(MetaReplyBody::Entry(state.inodes[&ino].attr))
            }
            MetaOp::LookupParent { .. } => {
                Ok(MetaReplyBody::Entry(state.inodes[&InodeId::ROOT].attr))
            }
            MetaOp::GetAttr { ino } => Ok(MetaReplyBody::Attr(state.get(*ino)?.attr)),
            MetaOp::Readdir {
                dir,
                after,
                limit,
                plus,
            } => {
                let of_dir: Vec<_> = state
                    .entries
                    .iter()
                    .filter(|((of, _), _)| of == dir)
                    .collect();
                let skip = after.saturating_sub(2) as usize;
                let entries = (3..).zip(&of_dir).skip(skip).take(*limit as usize).map(
                    |(cookie, ((_, name), ino))| DirEntry {
                        name: name.clone(),
                        ino: **ino,
                        kind: state.inodes[ino].attr.kind,
                        cookie,
                        attr: plus.then(|| state.inodes[ino].attr),
                    },
                );
                Ok(MetaReplyBody::Entries {
                    entries: entries.collect(),
                    end: skip + *limit as usize >= of_dir.len(),
                })
            }
            MetaOp::Create {
                dir,
                name,
                exclusive,
                open,
                ..
            } => {
                let key = (*dir, name.clone());
                if let Some(ino) = state.entries.get(&key).copied() {
                    if *exclusive {
                        return Err(FsError::Exists);
                    }
                    return self.open(&mut state, ino, *open, request.session);
                }
                let ino = self.new_inode(&mut state, FileKind::Regular);
                state.entries.insert(key, ino);
                Ok(opened(&state.inodes[&ino], true))
            }
            MetaOp::Mkdir { dir, name, .. } => {
                let ino = self.new_inode(&mut state, FileKind::Directory);
                state.entries.insert((*dir, name.clone()), ino);
                Ok(MetaReplyBody::Entry(state.inodes[&ino].attr))
            }
            MetaOp::OpenTmpFile { .. } => {
                let ino = self.new_inode(&mut state, FileKind::Regular);
                state.get(ino)?.attr.nlink = 0;
                state.orphans.insert(ino);
                Ok(opened(&state.inodes[&ino], true))
            }
            MetaOp::Link { ino, dir, name } => {
                state.entries.insert((*dir, name.clone()), *ino);
                state.orphans.remove(ino);
                let attr = &mut state.get(*ino)?.attr;
                attr.nlink += 1;
                attr.ctime = now;
                attr.change += 1;
                Ok(MetaReplyBody::Entry(*attr))
            }
            MetaOp::Unlink { dir, name } => {
                let ino = state
                    .entries
                    .remove(&(*dir, name.clone()))
                    .ok_or(FsError::NotFound)?;
                Ok(MetaReplyBody::Removed(state.remove_name(ino, now)))
            }
            MetaOp::Rename {
                from,
                name,
                to,
                new_name,
                ..
            } => {
                let ino = state
                    .entries
                    .remove(&(*from, name.clone()))
                    .ok_or(FsError::NotFound)?;
                let victim = state.entries.insert((*to, new_name.clone()), ino);
                let mut removed = match victim {
                    Some(victim) => state.remove_name(victim, now),
                    None => RemovedName::default(),
                };
                let attr = &mut state.get(ino)?.attr;
                attr.ctime = now;
                attr.change += 1;
                removed.attr = Some(*attr);
                Ok(MetaReplyBody::Removed(removed))
            }
            MetaOp::SetAttr { ino, set } => {
                let attr = &mut state.get(*ino)?.attr;
                attr.ctime = set.ctime.unwrap_or(now).max(attr.ctime);
                let time = |time| match time {
                    SetTime::Now => now,
                    SetTime::To(time) => time,
                };
                attr.atime = set.atime.map_or(attr.atime, time);
                attr.mtime = set.mtime.map_or(attr.mtime, time);
                attr.mode = set.mode.map_or(attr.mode, FileMode::from_bits);
                attr.change += 1;
                Ok(MetaReplyBody::Attr(*attr))
            }
            MetaOp::Open { ino, open } => self.open(&mut state, *ino, *open, request.session),
            MetaOp::Truncate { ino, to, .. } => {
                self.truncate(&mut state, *ino, *to, request.session)?;
                Ok(opened(state.get(*ino)?, false))
            }
            MetaOp::WriteInline {
                ino,
                at,
                data,
                kill_privileges,
            } => {
                let inode = state.get(*ino)?;
                let offset = match at {
                    WritePosition::Offset(offset) => *offset,
                    WritePosition::End => inode.attr.size,
                };
                let end = offset + data.len() as u64;
                if !inode.layout.is_empty() || end > INLINE_MAX.0 {
                    return Ok(MetaReplyBody::InlineTooLarge);
                }
                let mut bytes = BytesMut::from(&inode.inline[..]);
                bytes.resize(bytes.len().max(end as usize), 0);
                bytes[offset as usize..end as usize].copy_from_slice(data);
                inode.inline = bytes.freeze();
                inode.attr.size = inode.attr.size.max(end);
                inode.data_changed(now);
                inode.kill_privileges(*kill_privileges);
                Ok(MetaReplyBody::Attr(inode.attr))
            }
            MetaOp::BeginWrite {
                ino,
                kill_privileges,
            } => {
                let shape = self.shape;
                let inode = state.get(*ino)?;
                if inode.layout.is_empty() {
                    inode.layout = new_layout(shape, inode.next_generation);
                    inode.next_generation += 2;
                }
                for component in &mut inode.layout.components {
                    for stripe in 0..component.targets.len() {
                        if component.presence.get(stripe) == Presence::Never {
                            component.presence.set(stripe, Presence::Maybe);
                        }
                    }
                }
                inode.attr.change += 1;
                inode.writers.insert(request.session);
                inode.kill_privileges(*kill_privileges);
                Ok(opened(inode, false))
            }
            MetaOp::SpillInline {
                ino,
                report: written,
            } => {
                let inode = state.get(*ino)?;
                inode.check_lease(request.session)?;
                assert!(!inode.layout.is_empty());
                inode.inline = Bytes::new();
                inode.apply_report(written);
                Ok(MetaReplyBody::Attr(inode.attr))
            }
            MetaOp::EndWrite {
                ino,
                report: written,
                keep_lease: keep,
            } => {
                let inode = state.get(*ino)?;
                inode.check_lease(request.session)?;
                inode.apply_report(written);
                if !keep {
                    inode.writers.remove(&request.session);
                    inode.clear_never_created(&written.unsynced);
                }
                Ok(MetaReplyBody::Attr(inode.attr))
            }
            MetaOp::KillPrivileges { ino } => {
                let inode = state.get(*ino)?;
                inode.kill_privileges(true);
                Ok(MetaReplyBody::Attr(inode.attr))
            }
            MetaOp::Forget { inodes } => {
                for ino in inodes {
                    assert!(state.orphans.remove(ino), "{ino:?} is no orphan");
                    self.purge(&mut state, *ino);
                }
                Ok(MetaReplyBody::Done)
            }
            _ => Err(FsError::NotSupported),
        }
    }

    fn open(
        &self,
        state: &mut FakeMdsState,
        ino: InodeId,
        how: OpenMode,
        session: SessionId,
    ) -> Result<MetaReplyBody, FsError> {
        if how.truncate {
            self.truncate(state, ino, 0, session)?;
        }
        Ok(opened(state.get(ino)?, false))
    }

    fn truncate(
        &self,
        state: &mut FakeMdsState,
        ino: InodeId,
        to: u64,
        session: SessionId,
    ) -> Result<(), FsError> {
        if to > FILE_SIZE_MAX {
            return Err(FsError::TooLarge);
        }
        let inode = state.get(ino)?;
        if to == 0 && !inode.layout.is_empty() {
            for (_, _, _, object, _) in inode.layout.objects(ino) {
                self.ost.state.lock().objects.remove(&object);
            }
            inode.layout = Layout::default();
            inode.writers.remove(&session);
            inode.attr.blocks = 0;
        } else if to < inode.attr.size || inode.writers.contains(&session) {
            // Truncates only what the server knows: not a size that was not reported.
            for component in &inode.layout.components {
                for stripe in 0..component.targets.len() {
                    self.ost.truncate(
                        component.object(ino, stripe),
                        component.object_size(stripe, to),
                    );
                }
            }
        }
        if !inode.layout.is_empty() {
            let targets = self.ost.state.lock();
            let objects = inode
                .layout
                .objects(ino)
                .filter_map(|(_, _, _, object, _)| targets.objects.get(&object));
            inode.attr.blocks = objects.map(|it| it.stat().blocks).sum();
        }
        inode.inline.truncate(inode.inline.len().min(to as usize));
        inode.attr.size = to;
        inode.data_changed(self.clock.now());
        Ok(())
    }

    fn purge(&self, state: &mut FakeMdsState, ino: InodeId) {
        let inode = state.inodes.remove(&ino).expect("an orphan is an inode");
        for (_, _, _, object, _) in inode.layout.objects(ino) {
            self.ost.state.lock().objects.remove(&object);
        }
    }

    fn new_inode(&self, state: &mut FakeMdsState, kind: FileKind) -> InodeId {
        state.counter += 1;
        let (ino, now) = (InodeId(state.counter), self.clock.now());
        let attr = Attr {
            ino,
            kind,
            mode: FileMode(0o644),
            nlink: 1,
            uid: 1000,
            gid: 1000,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            change: 1,
            flags: InodeFlags::empty(),
            project: ProjectId(0),
            volume: VolumeId(0),
        };
        let inode = FakeInode {
            attr,
            layout: Layout::default(),
            inline: Bytes::new(),
            writers: BTreeSet::new(),
            next_generation: 1,
        };
        state.inodes.insert(ino, inode);
        ino
    }
}

impl Service<MetaRequest, MetaReply> for FakeMds {
    async fn handle(self: Arc<Self>, request: MetaRequest) -> MetaReply {
        if let Some(slot_seq) = request.slot_seq {
            let mut state = self.state.lock();
            assert!(
                state.in_use.insert(slot_seq.slot),
                "two changes in one slot"
            );
            let last = state
                .slots
                .insert(slot_seq.slot, slot_seq.sequence)
                .unwrap_or(0);
            assert!(slot_seq.sequence > last, "a sequence used twice");
        }
        yield_at_random(&self.dice).await;
        let (seq, result) = {
            let result = self.apply(&request);
            (self.state.lock().seq, result)
        };
        let delayed = {
            let held = &mut self.state.lock().delayed;
            let index = held.iter().position(|name| *name == request.op.name());
            index.map(|index| held.remove(index)).is_some()
        };
        if delayed {
            self.release_delayed.notified().await;
        }
        yield_at_random(&self.dice).await;
        let mut state = self.state.lock();
        if let Some(slot_seq) = request.slot_seq {
            state.in_use.remove(&slot_seq.slot);
        }
        MetaReply {
            seq: Seq(seq),
            durable: Seq(state.durable),
            map_epoch: MapEpoch(1),
            change: None,
            result,
        }
    }
}

impl FakeMdsState {
    fn get(&mut self, ino: InodeId) -> Result<&mut FakeInode, FsError> {
        self.inodes.get_mut(&ino).ok_or(FsError::Stale)
    }

    fn remove_name(&mut self, ino: InodeId, now: Timestamp) -> RemovedName {
        let attr = &mut self
            .inodes
            .get_mut(&ino)
            .expect("an entry has an inode")
            .attr;
        attr.nlink -= 1;
        attr.ctime = now;
        attr.change += 1;
        let orphan = attr.nlink == 0;
        if orphan {
            self.orphans.insert(ino);
        }
        RemovedName {
            victim: Some(ino),
            is_orphan: orphan,
            attr: None,
        }
    }
}

impl FakeInode {
    fn data_changed(&mut self, now: Timestamp) {
        self.attr.mtime = now;
        self.attr.ctime = self.attr.ctime.max(now);
        self.attr.change += 1;
    }

    fn kill_privileges(&mut self, kill: bool) {
        if kill && self.attr.mode.0 & (FileMode::SETUID | FileMode::SETGID) != 0 {
            self.attr.mode = self.attr.mode.without(FileMode::SETUID | FileMode::SETGID);
            self.attr.change += 1;
        }
    }

    fn check_lease(&self, session: SessionId) -> Result<(), FsError> {
        match self.writers.contains(&session) {
            true => Ok(()),
            false => Err(FsError::Malformed("the session has no write lease".into())),
        }
    }

    fn apply_report(&mut self, written: &AttrReport) {
        self.attr.size = written.size;
        self.attr.blocks = written.blocks;
        if let Some(mtime) = written.mtime {
            self.attr.mtime = mtime;
            self.attr.ctime = self.attr.ctime.max(mtime);
        }
        self.attr.atime = written.atime.unwrap_or(self.attr.atime);
        for (component, stripe) in &written.present {
            let component = &mut self.layout.components[*component as usize];
            component.presence.set(*stripe as usize, Presence::Present);
        }
        self.attr.change += 1;
    }

    fn clear_never_created(&mut self, unsynced: &[(u32, u32)]) {
        for (index, component) in self.layout.components.iter_mut().enumerate() {
            for stripe in 0..component.targets.len() {
                let is_there = unsynced.contains(&(index as u32, stripe as u32));
                if component.presence.get(stripe) == Presence::Maybe && !is_there {
                    component.presence.set(stripe, Presence::Never);
                }
            }
        }
    }
}

fn opened(inode: &FakeInode, created: bool) -> MetaReplyBody {
    let inline = inode.layout.is_empty() || !inode.inline.is_empty();
    MetaReplyBody::Opened(OpenInfo {
        attr: inode.attr,
        layout: inode.layout.clone(),
        inline: inline.then(|| inode.inline.clone()),
        created,
        capability: None,
    })
}

fn new_layout(shape: LayoutShape, generation: u32) -> Layout {
    let unit = match shape {
        LayoutShape::Default => 1 << 20,
        LayoutShape::Small => 64 << 10,
    };
    let component = |from, to, targets: Vec<OstId>, generation| Component {
        from: FileOffset(from),
        to: FileOffset(to),
        kind: ComponentKind::Plain,
        unit: ByteCount(unit),
        presence: PresenceMap::new(targets.len()),
        targets,
        generation: Generation(generation),
        state: ComponentState::Live,
    };
    let rest = (1..TARGETS).map(OstId).collect();
    Layout {
        components: vec![
            component(0, 4 * unit, vec![OstId(0)], generation),
            component(4 * unit, u64::MAX, rest, generation + 1),
        ],
    }
}
