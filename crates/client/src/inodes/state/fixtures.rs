//! A layout of two objects, for tests.

use gupfs_proto::attr::{FileKind, InodeFlags};
use gupfs_proto::layout::{ComponentKind, ComponentState};
use gupfs_proto::meta::OpenInfo;
use gupfs_proto::{
    Attr, ByteCount, Component, FileMode, FileOffset, Generation, InodeId, Layout, OstId, Presence,
    PresenceMap, ProjectId, Timestamp, VolumeId,
};

pub fn layout(presence: Presence) -> Layout {
    let mut map = PresenceMap::new(2);
    map.set(0, presence);
    map.set(1, presence);
    let component = Component {
        from: FileOffset(0),
        to: FileOffset(u64::MAX),
        kind: ComponentKind::Plain,
        unit: ByteCount::mib(1),
        targets: vec![OstId(0), OstId(1)],
        generation: Generation(3),
        state: ComponentState::Live,
        presence: map,
    };
    Layout {
        components: vec![component],
    }
}

/// The reply to an open after this change; the size is 100 times its number.
pub fn opened(change: u64, presence: Presence) -> OpenInfo {
    let time = Timestamp::default();
    OpenInfo {
        attr: Attr {
            ino: InodeId(5),
            kind: FileKind::Regular,
            mode: FileMode(0o644),
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: change * 100,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            change,
            flags: InodeFlags::empty(),
            project: ProjectId(0),
            volume: VolumeId(0),
        },
        layout: layout(presence),
        inline: None,
        created: false,
        capability: None,
    }
}
