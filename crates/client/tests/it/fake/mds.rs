//! A metadata server in memory, without permissions: enough names to find files again, and the whole conversation
//! about size, content and objects.

use super::ost::FakeOst;
use super::{Shape, TARGETS, dawdle};
use bytes::{Bytes, BytesMut};
use gupfs_platform::fake::{FakeClock, FakeDice};
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
    dice: FakeDice,
    ost: Arc<FakeOst>,
    shape: Shape,
    pub state: Mutex<State>,
    pub let_go: Notify,
}

#[derive(Default)]
pub struct State {
    pub inodes: BTreeMap<InodeId, Inode>,
    pub entries: BTreeMap<(InodeId, Name), InodeId>,
    pub orphans: BTreeSet<InodeId>,
    pub seq: u64,
    pub durable: u64,
    session: u64,
    counter: u64,
    /// The last sequence of each lane, and the lanes in use.
    lanes: BTreeMap<Slot, u64>,
    in_use: BTreeSet<Slot>,
    /// Names of the operations asked.
    pub journal: Vec<&'static str>,
    /// Refused once each, by operation.
    pub refused: Vec<(&'static str, Refusal)>,
    /// Done, but answered only when `let_go` is notified: once each.
    pub held_back: Vec<&'static str>,
}

#[derive(Clone)]
pub struct Inode {
    pub attr: Attr,
    pub layout: Layout,
    pub inline: Bytes,
    pub writers: BTreeSet<SessionId>,
    next_generation: u32,
}

impl FakeMds {
    pub fn new(clock: FakeClock, dice: FakeDice, ost: Arc<FakeOst>, shape: Shape) -> Arc<FakeMds> {
        let mds = FakeMds {
            clock,
            dice,
            ost,
            shape,
            state: Mutex::default(),
            let_go: Notify::new(),
        };
        mds.new_inode(&mut mds.state.lock(), FileKind::Directory);
        Arc::new(mds)
    }

    pub fn inode(&self, ino: InodeId) -> Inode {
        self.state.lock().inodes[&ino].clone()
    }

    pub fn exists(&self, ino: InodeId) -> bool {
        self.state.lock().inodes.contains_key(&ino)
    }

    /// What the real one does when it starts: no session lives any more.
    pub fn recover(&self) {
        let mut state = self.state.lock();
        state.lanes.clear();
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

    fn recover_writer(&self, inode: &mut Inode) {
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

    fn do_it(&self, request: &Request) -> Result<Answer, Refusal> {
        let mut state = self.state.lock();
        state.journal.push(request.op.name());
        if let Some(index) = state
            .refused
            .iter()
            .position(|(name, _)| *name == request.op.name())
        {
            return Err(state.refused.remove(index).1);
        }
        assert_eq!(request.lane.is_some(), request.op.changes());
        if request.op.changes() {
            state.seq += 1;
        }
        let now = self.clock.now();
        match &request.op {
            Op::OpenSession { .. } => {
                state.session += 1;
                Ok(Answer::Session {
                    session: SessionId(state.session),
                    life: OwnerEpoch(1),
                    pass: None,
                })
            }
            Op::CloseSession | Op::Return { .. } => Ok(Answer::Done),
            Op::Renew => Ok(Answer::Renewed { pass: None }),
            Op::Lock(_) => Err(Refusal::NotSupported),
            Op::Sync { upto } => {
                assert!(upto.0 <= state.seq);
                state.durable = state.seq;
                Ok(Answer::Synced)
            }
            Op::StatFs => Ok(Answer::StatFs(StatFs {
                inodes: state.inodes.len() as u64,
                purging: 0,
            })),
            Op::Lookup { dir, name } => {
                let ino = *state
                    .entries
                    .get(&(*dir, name.clone()))
                    .ok_or(Refusal::NotFound)?;
                Ok(Answer::Entry(state.inodes[&ino].attr))
            }
            Op::LookupParent { .. } => Ok(Answer::Entry(state.inodes[&InodeId::ROOT].attr)),
            Op::GetAttr { ino } => Ok(Answer::Attr(state.get(*ino)?.attr)),
            Op::Readdir {
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
                Ok(Answer::Entries {
                    entries: entries.collect(),
                    end: skip + *limit as usize >= of_dir.len(),
                })
            }
            Op::Create {
                dir,
                name,
                exclusive,
                open,
                ..
            } => {
                let key = (*dir, name.clone());
                if let Some(ino) = state.entries.get(&key).copied() {
                    if *exclusive {
                        return Err(Refusal::Exists);
                    }
                    return self.open(&mut state, ino, *open, request.session);
                }
                let ino = self.new_inode(&mut state, FileKind::Regular);
                state.entries.insert(key, ino);
                Ok(opened(&state.inodes[&ino], true))
            }
            Op::Mkdir { dir, name, .. } => {
                let ino = self.new_inode(&mut state, FileKind::Directory);
                state.entries.insert((*dir, name.clone()), ino);
                Ok(Answer::Entry(state.inodes[&ino].attr))
            }
            Op::OpenTmpFile { .. } => {
                let ino = self.new_inode(&mut state, FileKind::Regular);
                state.get(ino)?.attr.nlink = 0;
                state.orphans.insert(ino);
                Ok(opened(&state.inodes[&ino], true))
            }
            Op::Link { ino, dir, name } => {
                state.entries.insert((*dir, name.clone()), *ino);
                state.orphans.remove(ino);
                let attr = &mut state.get(*ino)?.attr;
                attr.nlink += 1;
                attr.ctime = now;
                attr.change += 1;
                Ok(Answer::Entry(*attr))
            }
            Op::Unlink { dir, name } => {
                let ino = state
                    .entries
                    .remove(&(*dir, name.clone()))
                    .ok_or(Refusal::NotFound)?;
                Ok(Answer::Removed(state.lose_name(ino, now)))
            }
            Op::Rename {
                from,
                name,
                to,
                new_name,
                ..
            } => {
                let ino = state
                    .entries
                    .remove(&(*from, name.clone()))
                    .ok_or(Refusal::NotFound)?;
                let victim = state.entries.insert((*to, new_name.clone()), ino);
                let mut removed = match victim {
                    Some(victim) => state.lose_name(victim, now),
                    None => Removed::default(),
                };
                let attr = &mut state.get(ino)?.attr;
                attr.ctime = now;
                attr.change += 1;
                removed.attr = Some(*attr);
                Ok(Answer::Removed(removed))
            }
            Op::SetAttr { ino, set } => {
                let attr = &mut state.get(*ino)?.attr;
                attr.ctime = set.ctime.unwrap_or(now).max(attr.ctime);
                let time = |time| match time {
                    SetTime::Now => now,
                    SetTime::To(time) => time,
                };
                attr.atime = set.atime.map_or(attr.atime, time);
                attr.mtime = set.mtime.map_or(attr.mtime, time);
                attr.mode = set.mode.map_or(attr.mode, Mode::from_bits);
                attr.change += 1;
                Ok(Answer::Attr(*attr))
            }
            Op::Open { ino, open } => self.open(&mut state, *ino, *open, request.session),
            Op::Truncate { ino, to, .. } => {
                self.truncate(&mut state, *ino, *to, request.session)?;
                Ok(opened(state.get(*ino)?, false))
            }
            Op::WriteInline {
                ino,
                at,
                data,
                kill_privileges,
            } => {
                let inode = state.get(*ino)?;
                let offset = match at {
                    WriteAt::Offset(offset) => *offset,
                    WriteAt::End => inode.attr.size,
                };
                let end = offset + data.len() as u64;
                if !inode.layout.is_empty() || end > INLINE_MAX.0 {
                    return Ok(Answer::Outgrown);
                }
                let mut bytes = BytesMut::from(&inode.inline[..]);
                bytes.resize(bytes.len().max(end as usize), 0);
                bytes[offset as usize..end as usize].copy_from_slice(data);
                inode.inline = bytes.freeze();
                inode.attr.size = inode.attr.size.max(end);
                inode.wrote(now);
                inode.kill(*kill_privileges);
                Ok(Answer::Attr(inode.attr))
            }
            Op::BeginWrite {
                ino,
                kill_privileges,
            } => {
                let shape = self.shape;
                let inode = state.get(*ino)?;
                if inode.layout.is_empty() {
                    inode.layout = lay_out(shape, inode.next_generation);
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
                inode.kill(*kill_privileges);
                Ok(opened(inode, false))
            }
            Op::Spilled { ino, written } => {
                let inode = state.get(*ino)?;
                inode.must_be_written_by(request.session)?;
                assert!(!inode.layout.is_empty());
                inode.inline = Bytes::new();
                inode.believe(written);
                Ok(Answer::Attr(inode.attr))
            }
            Op::EndWrite { ino, written, keep } => {
                let inode = state.get(*ino)?;
                inode.must_be_written_by(request.session)?;
                inode.believe(written);
                if !keep {
                    inode.writers.remove(&request.session);
                    inode.forget_unmade(&written.unsynced);
                }
                Ok(Answer::Attr(inode.attr))
            }
            Op::KillPrivileges { ino } => {
                let inode = state.get(*ino)?;
                inode.kill(true);
                Ok(Answer::Attr(inode.attr))
            }
            Op::Forgotten { inodes } => {
                for ino in inodes {
                    assert!(state.orphans.remove(ino), "{ino:?} is no orphan");
                    self.purge(&mut state, *ino);
                }
                Ok(Answer::Done)
            }
            _ => Err(Refusal::NotSupported),
        }
    }

    fn open(
        &self,
        state: &mut State,
        ino: InodeId,
        how: OpenHow,
        session: SessionId,
    ) -> Result<Answer, Refusal> {
        if how.truncate {
            self.truncate(state, ino, 0, session)?;
        }
        Ok(opened(state.get(ino)?, false))
    }

    fn truncate(
        &self,
        state: &mut State,
        ino: InodeId,
        to: u64,
        session: SessionId,
    ) -> Result<(), Refusal> {
        if to > FILE_SIZE_MAX {
            return Err(Refusal::TooLarge);
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
            // As far as the server knows: a size it was not told of is not cut.
            for component in &inode.layout.components {
                for stripe in 0..component.targets.len() {
                    self.ost.cut(
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
        inode.wrote(self.clock.now());
        Ok(())
    }

    fn purge(&self, state: &mut State, ino: InodeId) {
        let inode = state.inodes.remove(&ino).expect("an orphan is an inode");
        for (_, _, _, object, _) in inode.layout.objects(ino) {
            self.ost.state.lock().objects.remove(&object);
        }
    }

    fn new_inode(&self, state: &mut State, kind: FileKind) -> InodeId {
        state.counter += 1;
        let (ino, now) = (InodeId(state.counter), self.clock.now());
        let attr = Attr {
            ino,
            kind,
            mode: Mode(0o644),
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
        let inode = Inode {
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

impl Service<Request, Reply> for FakeMds {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        if let Some(lane) = request.lane {
            let mut state = self.state.lock();
            assert!(state.in_use.insert(lane.slot), "two changes in one lane");
            let last = state.lanes.insert(lane.slot, lane.sequence).unwrap_or(0);
            assert!(lane.sequence > last, "a sequence used twice");
        }
        dawdle(&self.dice).await;
        let (seq, result) = {
            let result = self.do_it(&request);
            (self.state.lock().seq, result)
        };
        let held_back = {
            let held = &mut self.state.lock().held_back;
            let index = held.iter().position(|name| *name == request.op.name());
            index.map(|index| held.remove(index)).is_some()
        };
        if held_back {
            self.let_go.notified().await;
        }
        dawdle(&self.dice).await;
        let mut state = self.state.lock();
        if let Some(lane) = request.lane {
            state.in_use.remove(&lane.slot);
        }
        Reply {
            seq: Seq(seq),
            durable: Seq(state.durable),
            map_epoch: MapEpoch(1),
            change: None,
            result,
        }
    }
}

impl State {
    fn get(&mut self, ino: InodeId) -> Result<&mut Inode, Refusal> {
        self.inodes.get_mut(&ino).ok_or(Refusal::Stale)
    }

    fn lose_name(&mut self, ino: InodeId, now: Timestamp) -> Removed {
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
        Removed {
            victim: Some(ino),
            orphan,
            attr: None,
        }
    }
}

impl Inode {
    fn wrote(&mut self, now: Timestamp) {
        self.attr.mtime = now;
        self.attr.ctime = self.attr.ctime.max(now);
        self.attr.change += 1;
    }

    fn kill(&mut self, kill: bool) {
        if kill && self.attr.mode.0 & (Mode::SETUID | Mode::SETGID) != 0 {
            self.attr.mode = self.attr.mode.without(Mode::SETUID | Mode::SETGID);
            self.attr.change += 1;
        }
    }

    fn must_be_written_by(&self, session: SessionId) -> Result<(), Refusal> {
        match self.writers.contains(&session) {
            true => Ok(()),
            false => Err(Refusal::Malformed("not a writer".into())),
        }
    }

    fn believe(&mut self, written: &Written) {
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

    fn forget_unmade(&mut self, unsynced: &[(u32, u32)]) {
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

fn opened(inode: &Inode, created: bool) -> Answer {
    let inline = inode.layout.is_empty() || !inode.inline.is_empty();
    Answer::Opened(Opened {
        attr: inode.attr,
        layout: inode.layout.clone(),
        inline: inline.then(|| inode.inline.clone()),
        created,
        capability: None,
    })
}

fn lay_out(shape: Shape, generation: u32) -> Layout {
    let unit = match shape {
        Shape::Default => 1 << 20,
        Shape::Small => 64 << 10,
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
