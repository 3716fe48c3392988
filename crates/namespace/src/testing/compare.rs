//! Runs each action on the state machine and on the model, and compares their replies.

use super::action::{Action, NAMES};
use super::model::{Model, ModelCaller, ModelResult, NodeId};
use super::*;
use crate::rights::OpenRights;
use crate::{BackgroundOp, FollowUp};
use bytes::Bytes;
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{
    self, AccessMode, AttrReport, CreateMode, MetaReplyBody, OpenMode, RemovedName, SetAttr,
    WritePosition, XattrMode, XattrName,
};
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId, Timestamp};

pub struct ServerAndModel {
    server: TestServer,
    model: Model,
    /// The inode of each of the model's nodes.
    inodes: Vec<InodeId>,
    pub caller: ModelCaller,
}

impl ServerAndModel {
    pub fn new(shards: u16, cold_cache: bool, replays: bool) -> ServerAndModel {
        let mut server = TestServer::new(shards);
        let model = Model::new(Timestamp::new(1_000, 0));
        server.cold_cache = cold_cache;
        server.replays = replays;
        let mut pair = ServerAndModel {
            server,
            model,
            inodes: vec![ROOT],
            caller: ModelCaller::default(),
        };
        for (name, mode) in [("a", 0o777), ("b", 0o1777), ("c", 0o2777)] {
            pair.run(&Action::Mkdir { dir: 0, name, mode });
        }
        pair
    }

    fn credentials(&self) -> Caller {
        Caller::new(self.caller.uid, self.caller.gid, self.caller.groups.clone())
    }

    fn request(&mut self, op: meta::MetaOp) -> Result<MetaReplyBody, FsError> {
        let reply = self.server.request(&self.credentials(), &op);
        self.model.now = self.server.now;
        reply
    }

    /// A request on behalf of a file that the session has open for writing, with any caller.
    fn request_on_open_file(
        &mut self,
        ino: InodeId,
        op: meta::MetaOp,
    ) -> Result<MetaReplyBody, FsError> {
        self.server.open_rights = OpenRights::new(vec![(ino, Rights::all())]);
        let reply = self.request(op);
        self.server.open_rights = OpenRights::default();
        reply
    }

    fn node(&self, pick: usize) -> NodeId {
        pick % self.inodes.len()
    }

    /// Usually a directory, sometimes any node.
    fn dir(&self, pick: usize) -> NodeId {
        let all: Vec<NodeId> = (0..self.inodes.len())
            .filter(|id| self.model.nodes[*id].kind == FileKind::Directory)
            .collect();
        if pick == 7 {
            self.node(pick)
        } else {
            all[pick % all.len()]
        }
    }

    /// Usually a regular file, sometimes any node.
    fn file(&self, pick: usize) -> NodeId {
        let files: Vec<NodeId> = (0..self.inodes.len())
            .filter(|id| self.model.nodes[*id].kind == FileKind::Regular)
            .collect();
        if pick % 8 == 7 || files.is_empty() {
            self.node(pick)
        } else {
            files[pick % files.len()]
        }
    }

    /// Usually a name in the directory, sometimes another name.
    fn old_name(&self, dir: NodeId, pick: u8) -> String {
        let children: Vec<&String> = self.model.nodes[dir].children.keys().collect();
        let pick = usize::from(pick);
        if pick % 8 == 7 || children.is_empty() {
            NAMES[pick % NAMES.len()].into()
        } else {
            children[pick % children.len()].clone()
        }
    }

    fn ino(&self, id: NodeId) -> InodeId {
        self.inodes[id]
    }

    /// Both must return the same node, or the same error.
    fn check_node(&mut self, reply: Result<Attr, FsError>, expected: ModelResult<NodeId>) {
        match (reply, expected) {
            (Ok(attr), Ok(id)) => {
                if id == self.inodes.len() {
                    assert!(
                        !self.inodes.contains(&attr.ino),
                        "an inode number was used twice"
                    );
                    self.inodes.push(attr.ino);
                }
                assert_eq!(attr.ino, self.ino(id));
                self.check_attr(id, &attr);
            }
            (reply, expected) => assert_eq!(reply.map(|_| ()), expected.map(|_| ())),
        }
    }

    fn check_same<T: std::fmt::Debug>(&self, reply: Result<T, FsError>, expected: ModelResult<()>) {
        assert_eq!(reply.map(|_| ()), expected);
    }

    fn check_attr(&self, id: NodeId, attr: &Attr) {
        let node = &self.model.nodes[id];
        assert_eq!(
            (
                attr.kind,
                u32::from(attr.mode.0),
                attr.uid,
                attr.gid,
                attr.nlink
            ),
            (
                node.kind,
                node.mode,
                node.uid,
                node.gid,
                self.model.nlink(id)
            )
        );
        assert_eq!(
            (attr.atime, attr.mtime, attr.ctime),
            (node.atime, node.mtime, node.ctime)
        );
        if node.kind == FileKind::Regular {
            assert_eq!(attr.size, node.size);
        }
    }

    pub fn run(&mut self, action: &Action) {
        let caller = self.caller.clone();
        match *action {
            Action::Create {
                dir,
                name: text,
                mode,
                umask,
                exclusive,
                access,
                truncate,
            } => {
                let dir = self.dir(dir);
                let open = OpenMode {
                    access: AccessMode::from_bits_retain(access),
                    truncate,
                    kill_privileges: false,
                };
                let op = meta::MetaOp::Create {
                    dir: self.ino(dir),
                    name: name(text),
                    create_mode: CreateMode { mode, umask },
                    exclusive,
                    open,
                };
                let reply = opened(self.request(op));
                let want = u32::from(access);
                let expected = self
                    .model
                    .create(dir, text, mode, umask, exclusive, want, truncate, &caller);
                if let (Ok(opened), Ok((_, created))) = (&reply, &expected) {
                    assert_eq!(opened.created, *created);
                }
                self.check_node(reply.map(|opened| opened.attr), expected.map(|(id, _)| id));
            }
            Action::Mkdir {
                dir,
                name: text,
                mode,
            } => {
                let dir = self.dir(dir);
                let reply = entry(self.request(meta::MetaOp::Mkdir {
                    dir: self.ino(dir),
                    name: name(text),
                    create_mode: create_mode(mode),
                }));
                let expected =
                    self.model
                        .create_node(dir, text, FileKind::Directory, mode, 0, &caller);
                self.check_node(reply, expected);
            }
            Action::Mknod {
                dir,
                name: text,
                kind,
                mode,
            } => {
                let dir = self.dir(dir);
                let op = meta::MetaOp::Mknod {
                    dir: self.ino(dir),
                    name: name(text),
                    kind,
                    rdev: 5,
                    create_mode: create_mode(mode),
                };
                let reply = entry(self.request(op));
                let expected = self.model.create_node(dir, text, kind, mode, 0, &caller);
                self.check_node(reply, expected);
            }
            Action::Symlink { dir, name: text } => {
                let dir = self.dir(dir);
                let op = meta::MetaOp::Symlink {
                    dir: self.ino(dir),
                    name: name(text),
                    target: b"../x".to_vec(),
                };
                let reply = entry(self.request(op));
                let expected =
                    self.model
                        .create_node(dir, text, FileKind::Symlink, 0o777, 0, &caller);
                self.check_node(reply, expected);
            }
            Action::TmpFile { dir, mode } => {
                let dir = self.dir(dir);
                let reply = entry(self.request(meta::MetaOp::TmpFile {
                    dir: self.ino(dir),
                    create_mode: create_mode(mode),
                }));
                let expected = self.model.tmpfile(dir, mode, &caller);
                self.check_node(reply, expected);
            }
            Action::Link {
                node,
                dir,
                name: text,
            } => {
                let (node, dir) = (self.file(node), self.dir(dir));
                let reply = entry(self.request(meta::MetaOp::Link {
                    ino: self.ino(node),
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.link(node, dir, text, &caller);
                self.check_node(reply, expected.map(|()| node));
            }
            Action::Unlink { dir, name: pick } => {
                let dir = self.dir(dir);
                let text = &self.old_name(dir, pick);
                let reply = removed(self.request(meta::MetaOp::Unlink {
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.remove(dir, text, false, &caller);
                self.check_removal(reply, expected);
            }
            Action::Rmdir { dir, name: pick } => {
                let dir = self.dir(dir);
                let text = &self.old_name(dir, pick);
                let reply = removed(self.request(meta::MetaOp::Rmdir {
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.remove(dir, text, true, &caller);
                self.check_removal(reply, expected);
            }
            Action::Rename {
                from,
                name: pick,
                to,
                new,
                how,
            } => {
                let (from, to) = (self.dir(from), self.dir(to));
                let text = &self.old_name(from, pick);
                let (old_dir, new_dir) = (self.ino(from), self.ino(to));
                let op = meta::MetaOp::Rename {
                    from: old_dir,
                    name: name(text),
                    to: new_dir,
                    new_name: name(new),
                    mode: how,
                };
                let reply = removed(self.request(op));
                let expected = self.model.rename(from, text, to, new, how, &caller);
                if let (Ok(reply), Ok(orphan)) = (&reply, &expected) {
                    assert_eq!(
                        (reply.is_orphan, reply.victim.filter(|_| reply.is_orphan)),
                        (orphan.is_some(), orphan.map(|id| self.ino(id)))
                    );
                }
                self.check_same(reply, expected.map(|_| ()));
            }
            Action::Lookup { dir, name: pick } => {
                let dir = self.dir(dir);
                let text = &self.old_name(dir, pick);
                let reply = entry(self.request(meta::MetaOp::Lookup {
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.lookup(dir, text, &caller);
                self.check_node(reply, expected);
            }
            Action::Access { node, want } => {
                let node = self.node(node);
                let reply = self.request(meta::MetaOp::Access {
                    ino: self.ino(node),
                    want: AccessMode::from_bits_retain(want),
                });
                let expected = self.model.access(node, &caller, u32::from(want));
                self.check_same(reply, expected);
            }
            Action::Open {
                node,
                access,
                truncate,
            } => {
                let node = self.file(node);
                let open = OpenMode {
                    access: AccessMode::from_bits_retain(access),
                    truncate,
                    kill_privileges: false,
                };
                let reply = opened(self.request(meta::MetaOp::Open {
                    ino: self.ino(node),
                    open,
                }));
                let expected = self.model.open(node, u32::from(access), truncate, &caller);
                if let Ok(opened) = &reply
                    && self.model.nodes[node].kind == FileKind::Regular
                {
                    assert_eq!(
                        opened.inline.as_deref(),
                        self.model.nodes[node].data.as_deref()
                    );
                    assert_eq!(
                        opened.layout.is_empty(),
                        self.model.nodes[node].data.is_some()
                    );
                }
                self.check_node(reply.map(|opened| opened.attr), expected.map(|()| node));
            }
            Action::Truncate {
                node,
                to,
                by_handle,
            } => {
                let node = self.file(node);
                let op = meta::MetaOp::Truncate {
                    ino: self.ino(node),
                    to,
                    by_handle,
                    kill_privileges: false,
                };
                let reply = opened(match by_handle {
                    true => self.request_on_open_file(self.ino(node), op),
                    false => self.request(op),
                });
                let expected = self.model.truncate(node, to, by_handle, &caller);
                self.check_node(reply.map(|opened| opened.attr), expected.map(|()| node));
            }
            Action::Write { node, at, len } => {
                let node = self.file(node);
                let data = Bytes::from(vec![len as u8; len]);
                let write_at = at.map_or(WritePosition::End, WritePosition::Offset);
                let op = meta::MetaOp::WriteInline {
                    ino: self.ino(node),
                    at: write_at,
                    data: data.clone(),
                    kill_privileges: false,
                };
                let reply = self.request_on_open_file(self.ino(node), op);
                let expected = self.model.write(node, at, &data, &caller);
                match (reply, expected) {
                    (Ok(MetaReplyBody::InlineTooLarge), Ok(fits)) => assert!(!fits),
                    (Ok(MetaReplyBody::Attr(attr)), Ok(fits)) => {
                        assert!(fits);
                        self.check_attr(node, &attr);
                    }
                    (reply, expected) => assert_eq!(reply.map(|_| ()), expected.map(|_| ())),
                }
            }
            Action::WriteObjects { node, size, keep } => self.write_objects(node, size, keep),
            Action::Chmod { node, mode } => {
                let set = SetAttr {
                    mode: Some(mode),
                    ..SetAttr::default()
                };
                self.setattr(node, set, |model, id| model.chmod(id, mode, &caller));
            }
            Action::Chown { node, uid, gid } => {
                let set = SetAttr {
                    uid,
                    gid,
                    ..SetAttr::default()
                };
                self.setattr(node, set, |model, id| model.chown(id, uid, gid, &caller));
            }
            Action::Utimes { node, atime, mtime } => {
                let set = SetAttr {
                    atime,
                    mtime,
                    ..SetAttr::default()
                };
                self.setattr(node, set, |model, id| {
                    model.utimes(id, atime, mtime, &caller)
                });
            }
            Action::SetXattr { node, name, len } => {
                let node = self.node(node);
                let value = Bytes::from(vec![7; len]);
                let (ino, xattr) = (self.ino(node), XattrName::new(name.as_bytes()).unwrap());
                let op = meta::MetaOp::SetXattr {
                    ino,
                    name: xattr,
                    value: value.clone(),
                    mode: XattrMode::CreateOrReplace,
                };
                let reply = attr(self.request(op));
                let expected = self.model.set_xattr(node, name, &value, &caller);
                self.check_node(reply, expected.map(|()| node));
            }
            Action::GetXattr { node, name } => {
                let node = self.node(node);
                let name_ = XattrName::new(name.as_bytes()).unwrap();
                let reply = self.request(meta::MetaOp::GetXattr {
                    ino: self.ino(node),
                    name: name_,
                });
                let expected = self.model.get_xattr(node, name, &caller);
                assert_eq!(
                    reply,
                    expected.map(|value| MetaReplyBody::Xattr(Bytes::copy_from_slice(value)))
                );
            }
            Action::RemoveXattr { node, name } => {
                let node = self.node(node);
                let name_ = XattrName::new(name.as_bytes()).unwrap();
                let reply = attr(self.request(meta::MetaOp::RemoveXattr {
                    ino: self.ino(node),
                    name: name_,
                }));
                let expected = self.model.remove_xattr(node, name, &caller);
                self.check_node(reply, expected.map(|()| node));
            }
            Action::Forget { node } => {
                let node = self.node(node);
                assert_eq!(
                    self.request(meta::MetaOp::Forget {
                        inodes: vec![self.ino(node)]
                    }),
                    Ok(MetaReplyBody::Done)
                );
                self.model.forget(node);
            }
            Action::Growth { allowed } => {
                self.server.growth_allowed = allowed;
                self.model.growth = allowed;
            }
        }
    }

    /// What a client does when a file outgrows its inode: acquires the write lease, spills the inline bytes, releases the lease.
    fn write_objects(&mut self, node: usize, size: u64, keep: bool) {
        let node = self.file(node);
        let ino = self.ino(node);
        let caller = self.caller.clone();
        let begin = meta::MetaOp::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let begun = match opened(self.request_on_open_file(ino, begin)) {
            Ok(opened) => opened,
            Err(error) => {
                let expected = self.model.write_objects(node, size, &caller);
                return assert_eq!(expected, Err(error));
            }
        };
        // A lease holder changes no record with BeginWrite, so it needs no free space.
        self.model.growth = true;
        assert_eq!(begun.layout.check(), Ok(()));
        let size = begun.attr.size.max(size);
        let object = vec![(0, 0)];
        let (present, unsynced) = match size % 2 {
            0 => (object, vec![]),
            _ => (vec![], object),
        };
        let written = |now| AttrReport {
            size,
            mtime: Some(now),
            blocks: 8,
            present: present.clone(),
            unsynced: unsynced.clone(),
            atime: None,
        };
        if begun.inline.is_some() {
            let now = self.server.now;
            attr(self.request(meta::MetaOp::SpillInline {
                ino,
                report: written(now),
            }))
            .unwrap();
        }
        let now = Timestamp::new(self.server.now.secs + 1, 0);
        let ended = attr(self.request(meta::MetaOp::EndWrite {
            ino,
            report: written(now),
            keep_lease: keep,
        }))
        .unwrap();
        self.model.write_objects(node, size, &caller).unwrap();
        self.model.growth = self.server.growth_allowed;
        self.check_attr(node, &ended);
        if self.server.follow_ups.contains(&FollowUp::Confirm(ino)) && size % 4 == 1 {
            let found = vec![(0, 0, true)];
            self.server
                .run_background(&BackgroundOp::ConfirmObjects { ino, found })
                .unwrap();
        }
    }

    fn setattr(
        &mut self,
        node: usize,
        set: SetAttr,
        model: impl FnOnce(&mut Model, NodeId) -> ModelResult<()>,
    ) {
        let node = self.node(node);
        let reply = attr(self.request(meta::MetaOp::SetAttr {
            ino: self.ino(node),
            set,
        }));
        let expected = model(&mut self.model, node);
        self.check_node(reply, expected.map(|()| node));
    }

    fn check_removal(&self, reply: Result<RemovedName, FsError>, expected: ModelResult<NodeId>) {
        if let (Ok(removed), Ok(id)) = (&reply, &expected) {
            assert_eq!(
                (removed.victim, removed.is_orphan),
                (Some(self.ino(*id)), self.model.nodes[*id].orphan)
            );
        }
        self.check_same(reply, expected.map(|_| ()));
    }

    /// Compares all nodes of both.
    pub fn compare(&mut self) {
        self.caller = ModelCaller::default();
        let mut inodes = 0;
        for id in 0..self.inodes.len() {
            let ino = self.ino(id);
            let reply = self.server.getattr(ino);
            let Ok(node) = self.model.node(id) else {
                assert_eq!(reply, Err(FsError::Stale));
                continue;
            };
            inodes += 1;
            let node = node.clone();
            self.check_attr(id, &reply.unwrap());
            if node.kind == FileKind::Directory {
                let mut listed: Vec<(Vec<u8>, InodeId)> = self
                    .server
                    .list(ino, 2)
                    .into_iter()
                    .map(|entry| (entry.name.as_bytes().to_vec(), entry.ino))
                    .collect();
                listed.sort();
                let expected: Vec<(Vec<u8>, InodeId)> = node
                    .children
                    .iter()
                    .map(|(name, child)| (name.as_bytes().to_vec(), self.ino(*child)))
                    .collect();
                assert_eq!(listed, expected);
                let above = entry(
                    self.server
                        .request(&Caller::root(), &meta::MetaOp::LookupParent { dir: ino }),
                );
                let expected = if node.names > 0 {
                    Ok(self.ino(node.parent))
                } else {
                    Err(FsError::NotFound)
                };
                assert_eq!(above.map(|attr| attr.ino), expected);
            }
            let names = self
                .server
                .request(&Caller::root(), &meta::MetaOp::ListXattr { ino });
            let expected = node
                .xattrs
                .keys()
                .map(|name| XattrName::new(name.as_bytes()).unwrap())
                .collect();
            assert_eq!(names, Ok(MetaReplyBody::XattrNames(expected)));
        }
        let Ok(MetaReplyBody::StatFs(statfs)) =
            self.server.request(&Caller::root(), &meta::MetaOp::StatFs)
        else {
            panic!()
        };
        assert_eq!(statfs.inodes, inodes);
        self.server.assert_clean();
    }
}
