use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::record::Usage;
use crate::view::ReadView;
use gupfs_proto::meta::{MetaReplyBody, StatFs};
use gupfs_proto::{VirtualShard, VirtualShards, VolumeId};

/// statvfs(3): the number of inodes in use, from one record per shard. The client gets bytes from the OSTs.
pub(crate) fn statfs(view: &mut ReadView, shards: VirtualShards) -> OpResult<MetaReplyBody> {
    let keys = || (0..shards.0).map(|shard| RecordKey::usage(VirtualShard(shard), VolumeId(0)));
    view.prefetch(keys())?;
    let mut sum = StatFs::default();
    for key in keys() {
        let usage: Usage = view.get(&key)?.unwrap_or_default();
        sum.inodes += usage.inodes;
        sum.purging += usage.purging;
    }
    Ok(MetaReplyBody::StatFs(sum))
}
