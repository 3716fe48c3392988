//! Actions on attributes, extended ones too.

use super::ServerAndModel;
use crate::testing::model::{Model, ModelResult, NodeId};
use crate::testing::*;
use bytes::Bytes;
use gupfs_proto::meta::{self, MetaReplyBody, SetAttr, SetTime, XattrMode, XattrName};

impl ServerAndModel {
    pub(super) fn chmod(&mut self, node: usize, mode: u32) {
        let caller = self.caller.clone();
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        self.setattr(node, set, |model, id| model.chmod(id, mode, &caller));
    }

    pub(super) fn chown(&mut self, node: usize, uid: Option<u32>, gid: Option<u32>) {
        let caller = self.caller.clone();
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.setattr(node, set, |model, id| model.chown(id, uid, gid, &caller));
    }

    pub(super) fn utimes(&mut self, node: usize, atime: Option<SetTime>, mtime: Option<SetTime>) {
        let caller = self.caller.clone();
        let set = SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        };
        self.setattr(node, set, |model, id| {
            model.utimes(id, atime, mtime, &caller)
        });
    }

    pub(super) fn set_xattr(&mut self, node: usize, name: &'static str, len: usize) {
        let caller = self.caller.clone();
        let node = self.pick_node(node);
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

    pub(super) fn get_xattr(&mut self, node: usize, name: &'static str) {
        let caller = self.caller.clone();
        let node = self.pick_node(node);
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

    pub(super) fn remove_xattr(&mut self, node: usize, name: &'static str) {
        let caller = self.caller.clone();
        let node = self.pick_node(node);
        let name_ = XattrName::new(name.as_bytes()).unwrap();
        let reply = attr(self.request(meta::MetaOp::RemoveXattr {
            ino: self.ino(node),
            name: name_,
        }));
        let expected = self.model.remove_xattr(node, name, &caller);
        self.check_node(reply, expected.map(|()| node));
    }

    pub(super) fn forget(&mut self, node: usize) {
        let node = self.pick_node(node);
        assert_eq!(
            self.request(meta::MetaOp::Forget {
                inodes: vec![self.ino(node)]
            }),
            Ok(MetaReplyBody::Done)
        );
        self.model.forget(node);
    }

    fn setattr(
        &mut self,
        node: usize,
        set: SetAttr,
        model: impl FnOnce(&mut Model, NodeId) -> ModelResult<()>,
    ) {
        let node = self.pick_node(node);
        let reply = attr(self.request(meta::MetaOp::SetAttr {
            ino: self.ino(node),
            set,
        }));
        let expected = model(&mut self.model, node);
        self.check_node(reply, expected.map(|()| node));
    }
}
