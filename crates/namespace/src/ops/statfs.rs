use crate::key::Key;
use crate::record::Usage;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::meta::{Answer, StatFs};
use gupfs_proto::{VirtualShard, VolumeId};

/// statvfs(3): inodes in use, from one record a shard. Bytes are the targets' affair.
pub(crate) fn statfs(view: &mut View) -> Outcome<Answer> {
    let keys = || (0..view.ctx.shards.0).map(|shard| Key::usage(VirtualShard(shard), VolumeId(0)));
    view.want(keys())?;
    let mut sum = StatFs::default();
    for key in keys() {
        let usage: Usage = view.get(&key)?.unwrap_or_default();
        sum.inodes += usage.inodes;
        sum.purging += usage.purging;
    }
    Ok(Answer::StatFs(sum))
}
