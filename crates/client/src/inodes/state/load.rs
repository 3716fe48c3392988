//! What the server's replies change in the state: loading it, and acquiring and releasing the write lease.

use super::InodeState;
use bytes::Bytes;
use gupfs_proto::meta::OpenInfo;
use gupfs_proto::{Attr, FileMode, FileOffset, InodeId, Layout};

impl InodeState {
    /// Takes the server's reply unless this state is authoritative. Replies may overtake each other.
    pub fn update_from_server(&mut self, opened: OpenInfo) {
        let is_late = self.is_loaded() && opened.attr.change < self.lease.loaded_change();
        if self.is_authoritative() || is_late {
            self.note_attr(opened.attr);
        } else if self.lease.is_concurrent() {
            self.merge_from_server(opened.attr);
        } else {
            self.load_from_server(opened, self.lease.loaded_change());
        }
    }

    /// Other clients have written beside this one. The file has only grown since the lease was acquired: what makes it smaller takes the
    /// leases of all.
    fn merge_from_server(&mut self, attr: Attr) {
        self.note_attr(attr);
        self.size.grow(FileOffset(attr.size));
    }

    /// Takes the server's reply to a truncate.
    pub fn load_after_truncate(&mut self, opened: OpenInfo) {
        self.load_from_server(opened, self.lease.loaded_change() + 1);
    }

    /// `known_at`: if the inode's `change` is not above it, the known presence of objects is right.
    fn load_from_server(&mut self, opened: OpenInfo, known_at: u64) {
        let change = opened.attr.change;
        let knows_objects = self.lease.excludes_others() || change <= known_at;
        self.lease.load(change, !opened.layout.is_empty());
        if (self.server_attr).is_none_or(|base| base.change <= change) {
            self.server_attr = Some(opened.attr);
        }
        self.size.load(FileOffset(opened.attr.size));
        self.times.load();
        self.objects.load(opened.created);
        self.adopt_layout(opened.layout, false, knows_objects);
        self.inline.load(opened.inline, opened.created);
    }

    /// The server has created the file for this client, with a layout and the exclusive write lease: it has no bytes, objects or extended
    /// attributes.
    pub fn created_with_lease(&mut self, opened: OpenInfo) {
        let mode = opened.attr.mode;
        let has_privileges = mode.has(FileMode::SETUID) || mode.has(FileMode::SETGID);
        let layout = opened.layout.clone();
        let without_layout = OpenInfo {
            layout: Layout::default(),
            ..opened
        };
        self.load_from_server(without_layout, 0);
        self.adopt_layout(layout, true, true);
        self.lease.acquired();
        self.reset_privileges();
        self.set_privileges_killed(!has_privileges);
    }

    /// The server has this client's last report, and all bytes of the file, which has no objects and no layout any more.
    pub fn lease_released_with_bytes(&mut self, attr: Option<Attr>, bytes: Bytes) {
        self.unsent.discard();
        self.adopt_layout(Layout::default(), false, true);
        self.size.set_inline(self.size.get());
        self.inline.replace(bytes);
        self.lease_released(attr);
    }

    /// Takes the layout after `BeginWrite`. The known presence of its components is kept; a new layout has no objects.
    pub fn lease_acquired(&mut self, opened: OpenInfo) {
        if !self.lease.excludes_others() {
            return self.lease_acquired_shared(opened);
        }
        let fresh = self.layout().is_empty();
        self.note_attr(opened.attr);
        self.adopt_layout(opened.layout, fresh, true);
        self.lease.acquired();
    }

    /// The same for a file that other clients may have written since it was loaded.
    fn lease_acquired_shared(&mut self, opened: OpenInfo) {
        let was_concurrent = self.lease.is_concurrent();
        if was_concurrent || self.lease.others_made_changes_before(opened.attr.change) {
            self.load_from_server(opened, 0);
        } else {
            let fresh = self.layout().is_empty();
            self.lease.set_loaded_change(opened.attr.change);
            self.note_attr(opened.attr);
            self.adopt_layout(opened.layout, fresh, true);
        }
        self.inline.note_other_clients();
        self.reset_privileges();
        self.lease.acquired();
    }

    /// The server has granted a concurrent lease: every object may exist, and other clients write, too.
    pub fn concurrent_lease_acquired(&mut self, opened: OpenInfo) {
        if self.lease.is_concurrent() {
            // A repeated request.
            return self.merge_from_server(opened.attr);
        }
        self.load_from_server(opened, 0);
        self.reset_privileges();
        self.objects.note_other_writers();
        self.lease.acquired_concurrent();
    }

    /// From now on other clients may write beside this one.
    pub fn lease_downgraded(&mut self) {
        self.objects.note_other_writers();
        self.lease.acquired_concurrent();
    }

    /// The server has the last report, and its state is authoritative from here on. This state equals it, unless the reply is
    /// late.
    pub fn lease_released(&mut self, attr: Option<Attr>) {
        self.lease.released(attr.map(|attr| attr.change));
    }

    fn adopt_layout(&mut self, layout: Layout, fresh: bool, knows_objects: bool) {
        // Before the first attributes there is no former layout, and so no object that could have moved.
        let ino = (self.server_attr.as_ref()).map_or(InodeId(0), |attr| attr.ino);
        self.objects.adopt_layout(ino, layout, fresh, knows_objects);
        if let Some(base) = &self.server_attr
            && self.times.is_unchanged()
        {
            self.objects.infer_only_unknown_blocks(base.blocks);
        }
    }
}
