//! Machine and model side by side: each action on both, and what they answer compared.

use super::action::{Action, NAMES};
use super::model::{Id, Model, Try, Who};
use super::*;
use crate::rights::Opens;
use crate::{ChoreOp, Work};
use bytes::Bytes;
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{
    self, Access, Answer, Make, OpenHow, Removed, SetAttr, WriteAt, Written, XattrHow, XattrName,
};
use gupfs_proto::{Attr, Caller, FileKind, InodeId, Refusal, Timestamp};

pub struct Pair {
    server: Server,
    model: Model,
    /// The inode of each of the model's nodes.
    inodes: Vec<InodeId>,
    pub who: Who,
}

impl Pair {
    pub fn new(shards: u16, forgetful: bool, repeats: bool) -> Pair {
        let mut server = Server::new(shards);
        let model = Model::new(Timestamp::new(1_000, 0));
        server.forgetful = forgetful;
        server.repeats = repeats;
        let mut pair = Pair {
            server,
            model,
            inodes: vec![ROOT],
            who: Who::default(),
        };
        for (name, mode) in [("a", 0o777), ("b", 0o1777), ("c", 0o2777)] {
            pair.run(&Action::Mkdir { dir: 0, name, mode });
        }
        pair
    }

    fn caller(&self) -> Caller {
        Caller::new(self.who.uid, self.who.gid, self.who.groups.clone())
    }

    fn ask(&mut self, op: meta::Op) -> Result<Answer, Refusal> {
        let answer = self.server.ask(&self.caller(), &op);
        self.model.now = self.server.now;
        answer
    }

    /// On behalf of an open file: whoever asks, it was opened for writing.
    fn ask_open(&mut self, ino: InodeId, op: meta::Op) -> Result<Answer, Refusal> {
        self.server.opens = Opens::new(vec![(ino, Rights::all())]);
        let answer = self.ask(op);
        self.server.opens = Opens::default();
        answer
    }

    fn node(&self, pick: usize) -> Id {
        pick % self.inodes.len()
    }

    /// Mostly a directory, now and then anything.
    fn dir(&self, pick: usize) -> Id {
        let all: Vec<Id> = (0..self.inodes.len())
            .filter(|id| self.model.nodes[*id].kind == FileKind::Directory)
            .collect();
        if pick == 7 {
            self.node(pick)
        } else {
            all[pick % all.len()]
        }
    }

    /// Mostly a regular file, now and then anything.
    fn file(&self, pick: usize) -> Id {
        let files: Vec<Id> = (0..self.inodes.len())
            .filter(|id| self.model.nodes[*id].kind == FileKind::Regular)
            .collect();
        if pick % 8 == 7 || files.is_empty() {
            self.node(pick)
        } else {
            files[pick % files.len()]
        }
    }

    /// A name that is in the directory, now and then another.
    fn old_name(&self, dir: Id, pick: u8) -> String {
        let children: Vec<&String> = self.model.nodes[dir].children.keys().collect();
        let pick = usize::from(pick);
        if pick % 8 == 7 || children.is_empty() {
            NAMES[pick % NAMES.len()].into()
        } else {
            children[pick % children.len()].clone()
        }
    }

    fn ino(&self, id: Id) -> InodeId {
        self.inodes[id]
    }

    /// A node was made, or none: both must say the same.
    fn made(&mut self, answer: Result<Attr, Refusal>, expected: Try<Id>) {
        match (answer, expected) {
            (Ok(attr), Ok(id)) => {
                if id == self.inodes.len() {
                    assert!(!self.inodes.contains(&attr.ino), "a number given twice");
                    self.inodes.push(attr.ino);
                }
                assert_eq!(attr.ino, self.ino(id));
                self.same_attr(id, &attr);
            }
            (answer, expected) => assert_eq!(answer.map(|_| ()), expected.map(|_| ())),
        }
    }

    fn same<T: std::fmt::Debug>(&self, answer: Result<T, Refusal>, expected: Try<()>) {
        assert_eq!(answer.map(|_| ()), expected);
    }

    fn same_attr(&self, id: Id, attr: &Attr) {
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
        let who = self.who.clone();
        match *action {
            Action::Create {
                dir,
                name: text,
                mode,
                umask,
                exclusive,
                access,
                cut,
            } => {
                let dir = self.dir(dir);
                let open = OpenHow {
                    access: Access::from_bits_retain(access),
                    truncate: cut,
                    kill_privileges: false,
                };
                let op = meta::Op::Create {
                    dir: self.ino(dir),
                    name: name(text),
                    make: Make { mode, umask },
                    exclusive,
                    open,
                };
                let answer = opened(self.ask(op));
                let want = u32::from(access);
                let expected = self
                    .model
                    .create(dir, text, mode, umask, exclusive, want, cut, &who);
                if let (Ok(opened), Ok((_, created))) = (&answer, &expected) {
                    assert_eq!(opened.created, *created);
                }
                self.made(answer.map(|opened| opened.attr), expected.map(|(id, _)| id));
            }
            Action::Mkdir {
                dir,
                name: text,
                mode,
            } => {
                let dir = self.dir(dir);
                let answer = entry(self.ask(meta::Op::Mkdir {
                    dir: self.ino(dir),
                    name: name(text),
                    make: make(mode),
                }));
                let expected = self
                    .model
                    .make(dir, text, FileKind::Directory, mode, 0, &who);
                self.made(answer, expected);
            }
            Action::Mknod {
                dir,
                name: text,
                kind,
                mode,
            } => {
                let dir = self.dir(dir);
                let op = meta::Op::Mknod {
                    dir: self.ino(dir),
                    name: name(text),
                    kind,
                    rdev: 5,
                    make: make(mode),
                };
                let answer = entry(self.ask(op));
                let expected = self.model.make(dir, text, kind, mode, 0, &who);
                self.made(answer, expected);
            }
            Action::Symlink { dir, name: text } => {
                let dir = self.dir(dir);
                let op = meta::Op::Symlink {
                    dir: self.ino(dir),
                    name: name(text),
                    target: b"../x".to_vec(),
                };
                let answer = entry(self.ask(op));
                let expected = self
                    .model
                    .make(dir, text, FileKind::Symlink, 0o777, 0, &who);
                self.made(answer, expected);
            }
            Action::TmpFile { dir, mode } => {
                let dir = self.dir(dir);
                let answer = entry(self.ask(meta::Op::TmpFile {
                    dir: self.ino(dir),
                    make: make(mode),
                }));
                let expected = self.model.tmpfile(dir, mode, &who);
                self.made(answer, expected);
            }
            Action::Link {
                node,
                dir,
                name: text,
            } => {
                let (node, dir) = (self.file(node), self.dir(dir));
                let answer = entry(self.ask(meta::Op::Link {
                    ino: self.ino(node),
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.link(node, dir, text, &who);
                self.made(answer, expected.map(|()| node));
            }
            Action::Unlink { dir, name: pick } => {
                let dir = self.dir(dir);
                let text = &self.old_name(dir, pick);
                let answer = removed(self.ask(meta::Op::Unlink {
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.remove(dir, text, false, &who);
                self.same_removal(answer, expected);
            }
            Action::Rmdir { dir, name: pick } => {
                let dir = self.dir(dir);
                let text = &self.old_name(dir, pick);
                let answer = removed(self.ask(meta::Op::Rmdir {
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.remove(dir, text, true, &who);
                self.same_removal(answer, expected);
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
                let op = meta::Op::Rename {
                    from: old_dir,
                    name: name(text),
                    to: new_dir,
                    new_name: name(new),
                    how,
                };
                let answer = removed(self.ask(op));
                let expected = self.model.rename(from, text, to, new, how, &who);
                if let (Ok(answer), Ok(orphan)) = (&answer, &expected) {
                    assert_eq!(
                        (answer.orphan, answer.victim.filter(|_| answer.orphan)),
                        (orphan.is_some(), orphan.map(|id| self.ino(id)))
                    );
                }
                self.same(answer, expected.map(|_| ()));
            }
            Action::Lookup { dir, name: pick } => {
                let dir = self.dir(dir);
                let text = &self.old_name(dir, pick);
                let answer = entry(self.ask(meta::Op::Lookup {
                    dir: self.ino(dir),
                    name: name(text),
                }));
                let expected = self.model.lookup(dir, text, &who);
                self.made(answer, expected);
            }
            Action::Access { node, want } => {
                let node = self.node(node);
                let answer = self.ask(meta::Op::Access {
                    ino: self.ino(node),
                    want: Access::from_bits_retain(want),
                });
                let expected = self.model.access(node, &who, u32::from(want));
                self.same(answer, expected);
            }
            Action::Open { node, access, cut } => {
                let node = self.file(node);
                let open = OpenHow {
                    access: Access::from_bits_retain(access),
                    truncate: cut,
                    kill_privileges: false,
                };
                let answer = opened(self.ask(meta::Op::Open {
                    ino: self.ino(node),
                    open,
                }));
                let expected = self.model.open(node, u32::from(access), cut, &who);
                if let Ok(opened) = &answer
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
                self.made(answer.map(|opened| opened.attr), expected.map(|()| node));
            }
            Action::Truncate {
                node,
                to,
                by_handle,
            } => {
                let node = self.file(node);
                let op = meta::Op::Truncate {
                    ino: self.ino(node),
                    to,
                    by_handle,
                    kill_privileges: false,
                };
                let answer = opened(match by_handle {
                    true => self.ask_open(self.ino(node), op),
                    false => self.ask(op),
                });
                let expected = self.model.truncate(node, to, by_handle, &who);
                self.made(answer.map(|opened| opened.attr), expected.map(|()| node));
            }
            Action::Write { node, at, len } => {
                let node = self.file(node);
                let data = Bytes::from(vec![len as u8; len]);
                let place = at.map_or(WriteAt::End, WriteAt::Offset);
                let op = meta::Op::WriteInline {
                    ino: self.ino(node),
                    at: place,
                    data: data.clone(),
                    kill_privileges: false,
                };
                let answer = self.ask_open(self.ino(node), op);
                let expected = self.model.write(node, at, &data, &who);
                match (answer, expected) {
                    (Ok(Answer::Outgrown), Ok(fits)) => assert!(!fits),
                    (Ok(Answer::Attr(attr)), Ok(fits)) => {
                        assert!(fits);
                        self.same_attr(node, &attr);
                    }
                    (answer, expected) => assert_eq!(answer.map(|_| ()), expected.map(|_| ())),
                }
            }
            Action::WriteObjects { node, size, keep } => self.write_objects(node, size, keep),
            Action::Chmod { node, mode } => {
                let set = SetAttr {
                    mode: Some(mode),
                    ..SetAttr::default()
                };
                self.setattr(node, set, |model, id| model.chmod(id, mode, &who));
            }
            Action::Chown { node, uid, gid } => {
                let set = SetAttr {
                    uid,
                    gid,
                    ..SetAttr::default()
                };
                self.setattr(node, set, |model, id| model.chown(id, uid, gid, &who));
            }
            Action::Utimes { node, atime, mtime } => {
                let set = SetAttr {
                    atime,
                    mtime,
                    ..SetAttr::default()
                };
                self.setattr(node, set, |model, id| model.utimes(id, atime, mtime, &who));
            }
            Action::SetXattr { node, name, len } => {
                let node = self.node(node);
                let value = Bytes::from(vec![7; len]);
                let (ino, xattr) = (self.ino(node), XattrName::new(name.as_bytes()).unwrap());
                let op = meta::Op::SetXattr {
                    ino,
                    name: xattr,
                    value: value.clone(),
                    how: XattrHow::Either,
                };
                let answer = attr(self.ask(op));
                let expected = self.model.set_xattr(node, name, &value, &who);
                self.made(answer, expected.map(|()| node));
            }
            Action::GetXattr { node, name } => {
                let node = self.node(node);
                let name_ = XattrName::new(name.as_bytes()).unwrap();
                let answer = self.ask(meta::Op::GetXattr {
                    ino: self.ino(node),
                    name: name_,
                });
                let expected = self.model.get_xattr(node, name, &who);
                assert_eq!(
                    answer,
                    expected.map(|value| Answer::Xattr(Bytes::copy_from_slice(value)))
                );
            }
            Action::RemoveXattr { node, name } => {
                let node = self.node(node);
                let name_ = XattrName::new(name.as_bytes()).unwrap();
                let answer = attr(self.ask(meta::Op::RemoveXattr {
                    ino: self.ino(node),
                    name: name_,
                }));
                let expected = self.model.remove_xattr(node, name, &who);
                self.made(answer, expected.map(|()| node));
            }
            Action::Forget { node } => {
                let node = self.node(node);
                assert_eq!(
                    self.ask(meta::Op::Forgotten {
                        inodes: vec![self.ino(node)]
                    }),
                    Ok(Answer::Done)
                );
                self.model.forget(node);
            }
            Action::Growth { allowed } => {
                self.server.growth_allowed = allowed;
                self.model.growth = allowed;
            }
        }
    }

    /// What a client does when a file outgrows its inode: begin, move the inline bytes, end.
    fn write_objects(&mut self, node: usize, size: u64, keep: bool) {
        let node = self.file(node);
        let ino = self.ino(node);
        let who = self.who.clone();
        let begin = meta::Op::BeginWrite {
            ino,
            kill_privileges: false,
        };
        let begun = match opened(self.ask_open(ino, begin)) {
            Ok(opened) => opened,
            Err(refusal) => {
                let expected = self.model.write_objects(node, size, &who);
                return assert_eq!(expected, Err(refusal));
            }
        };
        // Nothing changes for who writes already, so that needs no room.
        self.model.growth = true;
        assert_eq!(begun.layout.check(), Ok(()));
        let size = begun.attr.size.max(size);
        let object = vec![(0, 0)];
        let (present, unsynced) = match size % 2 {
            0 => (object, vec![]),
            _ => (vec![], object),
        };
        let written = |now| Written {
            size,
            mtime: Some(now),
            blocks: 8,
            present: present.clone(),
            unsynced: unsynced.clone(),
            atime: None,
        };
        if begun.inline.is_some() {
            let now = self.server.now;
            attr(self.ask(meta::Op::Spilled {
                ino,
                written: written(now),
            }))
            .unwrap();
        }
        let now = Timestamp::new(self.server.now.secs + 1, 0);
        let ended = attr(self.ask(meta::Op::EndWrite {
            ino,
            written: written(now),
            keep,
        }))
        .unwrap();
        self.model.write_objects(node, size, &who).unwrap();
        self.model.growth = self.server.growth_allowed;
        self.same_attr(node, &ended);
        if self.server.work.contains(&Work::Confirm(ino)) && size % 4 == 1 {
            let found = vec![(0, 0, true)];
            self.server
                .chore(&ChoreOp::Confirmed { ino, found })
                .unwrap();
        }
    }

    fn setattr(
        &mut self,
        node: usize,
        set: SetAttr,
        model: impl FnOnce(&mut Model, Id) -> Try<()>,
    ) {
        let node = self.node(node);
        let answer = attr(self.ask(meta::Op::SetAttr {
            ino: self.ino(node),
            set,
        }));
        let expected = model(&mut self.model, node);
        self.made(answer, expected.map(|()| node));
    }

    fn same_removal(&self, answer: Result<Removed, Refusal>, expected: Try<Id>) {
        if let (Ok(removed), Ok(id)) = (&answer, &expected) {
            assert_eq!(
                (removed.victim, removed.orphan),
                (Some(self.ino(*id)), self.model.nodes[*id].orphan)
            );
        }
        self.same(answer, expected.map(|_| ()));
    }

    /// Everything, from both sides.
    pub fn compare(&mut self) {
        self.who = Who::default();
        let mut inodes = 0;
        for id in 0..self.inodes.len() {
            let ino = self.ino(id);
            let answer = self.server.getattr(ino);
            let Ok(node) = self.model.node(id) else {
                assert_eq!(answer, Err(Refusal::Stale));
                continue;
            };
            inodes += 1;
            let node = node.clone();
            self.same_attr(id, &answer.unwrap());
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
                        .ask(&Caller::root(), &meta::Op::LookupParent { dir: ino }),
                );
                let expected = if node.names > 0 {
                    Ok(self.ino(node.above))
                } else {
                    Err(Refusal::NotFound)
                };
                assert_eq!(above.map(|attr| attr.ino), expected);
            }
            let names = self
                .server
                .ask(&Caller::root(), &meta::Op::ListXattr { ino });
            let expected = node
                .xattrs
                .keys()
                .map(|name| XattrName::new(name.as_bytes()).unwrap())
                .collect();
            assert_eq!(names, Ok(Answer::XattrNames(expected)));
        }
        let Ok(Answer::StatFs(statfs)) = self.server.ask(&Caller::root(), &meta::Op::StatFs) else {
            panic!()
        };
        assert_eq!(statfs.inodes, inodes);
        self.server.assert_clean();
    }
}
