//! Runs each action on the state machine and on the model, and compares their replies.

mod attributes;
mod files;
mod names;

use super::action::{Action, NAMES};
use super::lease_keys::LeasedAnswers;
use super::model::{Model, ModelCaller, ModelNode, ModelResult, NodeId};
use super::*;
use crate::rights::OpenRights;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{self, AccessMode, CreateMode, MetaReplyBody, OpenMode, XattrName};
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId, Timestamp};

pub struct ServerAndModel {
    pub server: TestServer,
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

    fn pick_node(&self, pick: usize) -> NodeId {
        pick % self.inodes.len()
    }

    /// Usually a directory, sometimes any node.
    fn pick_dir(&self, pick: usize) -> NodeId {
        let all: Vec<NodeId> = (0..self.inodes.len())
            .filter(|id| self.model.nodes[*id].kind == FileKind::Directory)
            .collect();
        if pick == 7 {
            self.pick_node(pick)
        } else {
            all[pick % all.len()]
        }
    }

    /// Usually a regular file, sometimes any node.
    fn pick_file(&self, pick: usize) -> NodeId {
        let files: Vec<NodeId> = (0..self.inodes.len())
            .filter(|id| self.model.nodes[*id].kind == FileKind::Regular)
            .collect();
        if pick % 8 == 7 || files.is_empty() {
            self.pick_node(pick)
        } else {
            files[pick % files.len()]
        }
    }

    /// Usually a name in the directory, sometimes another name.
    fn pick_name(&self, dir: NodeId, pick: u8) -> String {
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
        let has_none = attr.flags.contains(InodeFlags::NO_XATTRS);
        assert_eq!(has_none, node.xattrs.is_empty());
    }

    pub fn run(&mut self, action: &Action) {
        match *action {
            Action::Create {
                dir,
                name,
                mode,
                umask,
                exclusive,
                access,
                truncate,
            } => {
                let open = OpenMode {
                    access: AccessMode::from_bits_retain(access),
                    truncate,
                    kill_privileges: false,
                };
                self.create(dir, name, CreateMode { mode, umask }, exclusive, open);
            }
            Action::Mkdir { dir, name, mode } => self.mkdir(dir, name, mode),
            Action::Mknod {
                dir,
                name,
                kind,
                mode,
            } => self.mknod(dir, name, kind, mode),
            Action::Symlink { dir, name } => self.symlink(dir, name),
            Action::TmpFile { dir, mode } => self.tmp_file(dir, mode),
            Action::Link { node, dir, name } => self.link(node, dir, name),
            Action::Unlink { dir, name } => self.unlink(dir, name),
            Action::Rmdir { dir, name } => self.rmdir(dir, name),
            Action::Rename {
                from,
                name,
                to,
                new,
                how,
            } => self.rename(from, name, to, new, how),
            Action::Lookup { dir, name } => self.lookup(dir, name),
            Action::Access { node, want } => self.access(node, want),
            Action::Open {
                node,
                access,
                truncate,
            } => self.open(node, access, truncate),
            Action::Truncate {
                node,
                to,
                by_handle,
            } => self.truncate(node, to, by_handle),
            Action::Write { node, at, len } => self.write(node, at, len),
            Action::WriteObjects { node, size, keep } => self.write_objects(node, size, keep),
            Action::Chmod { node, mode } => self.chmod(node, mode),
            Action::Chown { node, uid, gid } => self.chown(node, uid, gid),
            Action::Utimes { node, atime, mtime } => self.utimes(node, atime, mtime),
            Action::SetXattr { node, name, len } => self.set_xattr(node, name, len),
            Action::GetXattr { node, name } => self.get_xattr(node, name),
            Action::RemoveXattr { node, name } => self.remove_xattr(node, name),
            Action::Forget { node } => self.forget(node),
            Action::Growth { allowed } => {
                self.server.growth_allowed = allowed;
                self.model.growth = allowed;
            }
        }
    }

    /// What the server answers about all inodes that there ever were.
    pub fn answers(&mut self) -> LeasedAnswers {
        self.server.answers(&self.inodes, &NAMES)
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
                self.compare_directory(ino, &node);
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

    /// Compares the entries and the parent of a directory.
    fn compare_directory(&mut self, ino: InodeId, node: &ModelNode) {
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
}
