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
number!(/// The virtual shards whose records are in one log: they have one owner at a time. A cluster has one group today,
    /// `ShardGroup::FIRST`; sequence numbers, instances, sessions with their slots, grace, and the keys of capabilities are a group's own.
    ShardGroup(u16), "group{}");
number!(/// One client's registration at an owner: 16 bits of the owner's shard group, 48 bits of counter; its locks, leases and open
    /// files end with it.
    SessionId(u64), "session{}");
number!(/// A target that an object server serves: one disk or directory.
    OstId(u16), "ost{}");
number!(/// Number of the owner (metadata server instance) of a shard group: 16 bits of group, 48 bits of counter, which rises with each
    /// change of owner and each start of one. Only epochs of one group have an order that means anything (`OwnerEpoch::is_after`).
    OwnerEpoch(u64), "owner{}");
number!(/// Version of the cluster map: which targets there are, and where.
    MapEpoch(u64), "map{}");
number!(/// Random number made each time a store or target is initialised.
    Incarnation(u64), "inc{:016x}");
number!(/// The write verifier of a target (as in NFS). It changes when unstable writes may be lost: the target's host lost
    /// power, or a sync failed. If a write returns one verifier and the later sync another, the write may be lost.
    WriteVerifier(u64), "verifier{}");
number!(/// Version of a layout component's objects; a truncate to zero or a move makes the next one.
    Generation(u32), "g{}");
number!(/// Position of a batch in its shard's log.
    Seq(u64), "seq{}");
number!(/// A volume (AFS) or fileset (GPFS); the first version has one.
    VolumeId(u32), "vol{}");
number!(/// A project for quotas.
    ProjectId(u32), "project{}");
number!(/// Random number made when a cluster is initialised.
    ClusterId(u128), "cluster{:032x}");
number!(/// One host's copy of the metadata. A random number, made when its directory is initialised.
    CopyId(u64), "copy{:016x}");
number!(/// One process of a copy. A random number: a later process does not have what an earlier one had in memory.
    CopyRun(u64), "run{:016x}");
number!(/// A slot of a session (as in NFSv4.1): at most one changing request is under way in each.
    Slot(u16), "slot{}");

impl InodeId {
    /// The root directory: shard 0, counter 1, which is also the root's number in FUSE.
    pub const ROOT: InodeId = InodeId(1);
    const COUNTER_BITS: u32 = 48;

    /// # Panics
    /// When the counter does not fit 48 bits. The shard allocates counters in blocks and never allocates one beyond 48 bits.
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

impl ShardGroup {
    /// The group of all virtual shards, as long as no shard has moved to another one.
    pub const FIRST: ShardGroup = ShardGroup(0);
    /// Bits of the counters in numbers that begin with a group.
    const COUNTER_BITS: u32 = 48;

    fn with_counter(self, counter: u64) -> u64 {
        assert!(
            counter >> Self::COUNTER_BITS == 0,
            "counter {counter} of {self:?} exceeds 48 bits"
        );
        (u64::from(self.0) << Self::COUNTER_BITS) | counter
    }

    fn of(number: u64) -> ShardGroup {
        ShardGroup((number >> Self::COUNTER_BITS) as u16)
    }
}

impl OwnerEpoch {
    /// # Panics
    /// When the counter does not fit 48 bits.
    pub fn new(group: ShardGroup, counter: u64) -> OwnerEpoch {
        OwnerEpoch(group.with_counter(counter))
    }

    pub fn group(self) -> ShardGroup {
        ShardGroup::of(self.0)
    }

    pub fn counter(self) -> u64 {
        self.0 & ((1 << ShardGroup::COUNTER_BITS) - 1)
    }

    /// So many epochs later, of the same group.
    ///
    /// # Panics
    /// When the counter does not fit 48 bits.
    pub fn after(self, epochs: u64) -> OwnerEpoch {
        OwnerEpoch::new(self.group(), self.counter() + epochs)
    }

    /// Whether this owner, or a later one, may act where `known` has acted: it is of the same group and not before it. Epoch 0 is that of no
    /// owner.
    pub fn may_follow(self, known: OwnerEpoch) -> bool {
        known == OwnerEpoch(0) || self == known || self.is_after(known)
    }

    /// Whether this is a later owner of the same group.
    pub fn is_after(self, other: OwnerEpoch) -> bool {
        self.group() == other.group() && self > other
    }
}

impl SessionId {
    /// # Panics
    /// When the counter does not fit 48 bits.
    pub fn new(group: ShardGroup, counter: u64) -> SessionId {
        SessionId(group.with_counter(counter))
    }

    /// The group whose owner opened the session.
    pub fn group(self) -> ShardGroup {
        ShardGroup::of(self.0)
    }
}

impl Generation {
    /// 2¹² generations per file and owner, 2²⁰ owners; beyond either the owner syncs each generation before it uses it.
    pub const WINDOW_SHIFT: u32 = 12;

    /// The counter in the epoch of the owner that made this generation, unless that owner had used up its 2¹² generations.
    pub fn window(self) -> u64 {
        u64::from(self.0 >> Self::WINDOW_SHIFT)
    }
}

/// The bytes of one file that lie on one OST: (inode, component generation, stripe index). The upper half of `stripe` is the number of
/// the copy: 0 for the first one, and without redundancy.
///
/// Generations are unique within an inode over all its components, so they distinguish components.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    pub ino: InodeId,
    pub generation: Generation,
    pub stripe: u32,
}

impl ObjectId {
    /// Bits of `stripe` that number the stripes.
    pub(crate) const STRIPE_BITS: u32 = 16;

    /// The first copy of the same bytes; the object itself without redundancy.
    pub fn first_copy(self) -> ObjectId {
        let stripe = self.stripe & ((1 << Self::STRIPE_BITS) - 1);
        ObjectId { stripe, ..self }
    }

    /// Number of the copy: 0 for the first one.
    pub fn copy(&self) -> u32 {
        self.stripe >> Self::STRIPE_BITS
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The object's name in errors and `gupfs status`, and the name of its data file: `<inode>.<generation>.<stripe>` in hexadecimal,
/// decimal, decimal.
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

/// Number of virtual shards that the cluster was initialised with; every inode's shard is below it.
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
    fn epochs_and_sessions_keep_their_group() {
        let (first, other) = (ShardGroup::FIRST, ShardGroup(513));
        let epoch = OwnerEpoch::new(other, 7);
        assert_eq!((epoch.group(), epoch.counter()), (other, 7));
        assert_eq!(epoch.after(3), OwnerEpoch::new(other, 10));
        assert!(epoch.after(1).is_after(epoch) && !epoch.is_after(epoch));
        assert!(!epoch.is_after(OwnerEpoch::new(first, 1)));
        assert!(!OwnerEpoch::new(first, 9).is_after(epoch));
        assert_eq!(SessionId::new(other, 1 << 47).group(), other);
        assert!(epoch.may_follow(epoch) && epoch.may_follow(OwnerEpoch(0)));
        assert!(!epoch.may_follow(epoch.after(1)) && !epoch.may_follow(OwnerEpoch::new(first, 1)));
        // The numbers of the first group are the counters.
        assert_eq!(OwnerEpoch::new(first, 300), OwnerEpoch(300));
        assert_eq!(SessionId::new(first, 300), SessionId(300));
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
