//! Identities. Four numbers that are easily confused have four types: `OwnerEpoch`, `MapEpoch`, `Incarnation`, `Generation`.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $show:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub $inner);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $show, self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(/// A part of the key space that can move between owners; there are `VirtualShards` of them.
    VirtualShard(u16), "vs{}");
number!(/// An inode: 16 bits of virtual shard, 48 bits of counter; never reused.
    InodeId(u64), "i{:x}");
number!(/// One client's registration; everything it holds dies with it.
    SessionId(u64), "session{}");
number!(/// A target an object server serves: one disk or directory.
    OstId(u16), "ost{}");
number!(/// Which owner of a shard speaks; rises with each change of owner.
    OwnerEpoch(u64), "owner{}");
number!(/// Version of the cluster map: targets, groups, refusals.
    MapEpoch(u64), "map{}");
number!(/// Made at random each time a store or target is initialised.
    Incarnation(u64), "inc{:016x}");
number!(/// Rises when a target came back with less than it had answered: its host lost power before all was synced. What was
    /// written in one life and is synced in the next may be lost.
    OstLife(u64), "life{}");
number!(/// Which writing of a layout component; a truncate to zero or a move makes the next one.
    Generation(u32), "g{}");
number!(/// Position of a batch in its shard's log.
    Seq(u64), "seq{}");
number!(/// What AFS calls a volume and GPFS a fileset; the first version has one.
    VolumeId(u32), "vol{}");
number!(/// A project for quotas.
    ProjectId(u32), "project{}");
number!(/// Made at random when a cluster is initialised.
    ClusterId(u128), "cluster{:032x}");
number!(/// One of a session's lanes: at most one changing request is under way in each.
    Slot(u16), "slot{}");

impl InodeId {
    /// The root directory: shard 0, counter 1, which is also what the kernel calls the root.
    pub const ROOT: InodeId = InodeId(1);
    const COUNTER_BITS: u32 = 48;

    /// # Panics
    /// When the counter does not fit 48 bits: blocks are handed out so that it always does.
    pub fn new(shard: VirtualShard, counter: u64) -> InodeId {
        assert!(
            counter >> Self::COUNTER_BITS == 0,
            "inode counter {counter} exceeds 48 bits"
        );
        InodeId((u64::from(shard.0) << Self::COUNTER_BITS) | counter)
    }

    pub fn shard(self) -> VirtualShard {
        VirtualShard((self.0 >> Self::COUNTER_BITS) as u16)
    }

    pub fn counter(self) -> u64 {
        self.0 & ((1 << Self::COUNTER_BITS) - 1)
    }
}

impl Generation {
    /// 2¹² generations a file and owner, 2²⁰ owners; beyond either every generation is synced before it is used.
    pub const WINDOW_SHIFT: u32 = 12;

    /// The owner that made it, unless that had used up its window.
    pub fn window(self) -> OwnerEpoch {
        OwnerEpoch(u64::from(self.0 >> Self::WINDOW_SHIFT))
    }
}

/// The bytes of one file that lie on one OST: (inode, component generation, stripe index).
///
/// Generations are unique within an inode over all its components, so they tell components apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    pub ino: InodeId,
    pub generation: Generation,
    pub stripe: u32,
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name people see in errors, `status` and as the data file's name: `<inode>.<generation>.<stripe>`, hex, decimal, decimal.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}.{}", self.ino.0, self.generation.0, self.stripe)
    }
}

impl std::str::FromStr for ObjectId {
    type Err = String;

    fn from_str(text: &str) -> Result<ObjectId, String> {
        let bad = || format!("'{text}' is not an object's name (inode.generation.stripe)");
        let mut parts = text.split('.');
        let (Some(ino), Some(generation), Some(stripe), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        Ok(ObjectId {
            ino: InodeId(u64::from_str_radix(ino, 16).map_err(|_| bad())?),
            generation: Generation(generation.parse().map_err(|_| bad())?),
            stripe: stripe.parse().map_err(|_| bad())?,
        })
    }
}

/// How many virtual shards a cluster was initialised with; every inode's shard is below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VirtualShards(pub u16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_keeps_its_shard_and_counter() {
        let ino = InodeId::new(VirtualShard(63), 0x1234_5678_9abc);
        assert_eq!(
            (ino.shard(), ino.counter()),
            (VirtualShard(63), 0x1234_5678_9abc)
        );
        assert_eq!(InodeId::ROOT, InodeId::new(VirtualShard(0), 1));
    }

    #[test]
    fn an_objects_name_reads_back() {
        let object = ObjectId {
            ino: InodeId(0xabc),
            generation: Generation(7),
            stripe: 3,
        };
        assert_eq!(object.to_string(), "abc.7.3");
        assert_eq!("abc.7.3".parse(), Ok(object));
        assert!("abc.7".parse::<ObjectId>().is_err());
        assert!("abc.7.3.1".parse::<ObjectId>().is_err());
    }
}
