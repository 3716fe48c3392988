//! Confirmation: a background task finds out which objects of a file survive a power loss. An `L` record requests it.

use crate::driver::FollowUp;
use crate::key::RecordKey;
use crate::record::Unconfirmed;
use crate::view::OpView;
use gupfs_proto::InodeId;

/// Records that a background task must confirm the objects of this file.
pub(crate) fn request_confirmation(view: &mut OpView, ino: InodeId) {
    let since = view.now();
    view.put(RecordKey::unconfirmed(ino), &Unconfirmed { since });
    view.add_follow_up(FollowUp::Confirm(ino));
}
