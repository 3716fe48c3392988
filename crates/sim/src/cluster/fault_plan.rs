//! The fault plan of a seed. Two of five seeds have a single kind of fault, so that a call may fail only as SEMANTICS says of
//! that kind.

use gupfs_platform::fake::FakeRandom;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultPlan {
    Only(FaultKind),
    /// All kinds of fault, except those of the metadata server (0), the object servers (1) or the clients (2).
    Mixed {
        without: u64,
    },
    /// One server, disk, link or client at a time, and the next when all members of mirrored stripes are full again (`faults::one_at_a_time`):
    /// no call may fail, and no answered byte be lost.
    OneAtATime,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    MetadataKills,
    MetadataPower,
    /// Faults of the hosts that have the metadata, of their links and of their arbiter.
    MetadataCopies,
    ObjectKills,
    ObjectPower,
    FullDisk,
    /// Connections break, and hosts are partitioned for a time too short to end a session.
    ShortPartitions,
    /// Clients are partitioned from the metadata server until their sessions end.
    LongPartitions,
    ClientKills,
    /// Processes of clients stop, some until their sessions end, and go on.
    Freezes,
    /// Wall clocks jump, and boot clocks run at different rates.
    Clocks,
}

const KINDS: [FaultKind; 10] = [
    FaultKind::MetadataPower,
    FaultKind::ObjectKills,
    FaultKind::LongPartitions,
    FaultKind::MetadataKills,
    FaultKind::ObjectPower,
    FaultKind::ClientKills,
    FaultKind::ShortPartitions,
    FaultKind::FullDisk,
    FaultKind::Clocks,
    FaultKind::Freezes,
];

impl FaultPlan {
    pub fn of(seed: u64) -> FaultPlan {
        match seed % 5 {
            part @ (1 | 3) => FaultPlan::Only(KINDS[((seed / 5 * 2 + part / 2) % 10) as usize]),
            _ => FaultPlan::Mixed {
                without: seed / 5 % 4,
            },
        }
    }

    /// Of a seed whose metadata has copies: half of the seeds have no other faults, so that no call may fail.
    pub fn with_copies(seed: u64) -> FaultPlan {
        match seed % 2 {
            0 => FaultPlan::Only(FaultKind::MetadataCopies),
            _ => FaultPlan::Mixed {
                without: 1 + seed / 2 % 3,
            },
        }
    }

    pub fn only(self) -> Option<FaultKind> {
        match self {
            FaultPlan::Only(kind) => Some(kind),
            FaultPlan::Mixed { .. } | FaultPlan::OneAtATime => None,
        }
    }

    pub fn has_metadata_faults(self) -> bool {
        match self {
            FaultPlan::Only(kind) => {
                matches!(
                    kind,
                    FaultKind::MetadataKills | FaultKind::MetadataPower | FaultKind::MetadataCopies
                )
            }
            FaultPlan::Mixed { without } => without != 0,
            FaultPlan::OneAtATime => false,
        }
    }

    pub fn has_object_faults(self) -> bool {
        match self {
            FaultPlan::Only(kind) => {
                matches!(
                    kind,
                    FaultKind::ObjectKills | FaultKind::ObjectPower | FaultKind::FullDisk
                )
            }
            FaultPlan::Mixed { without } => without != 1,
            FaultPlan::OneAtATime => false,
        }
    }

    pub fn has_net_faults(self) -> bool {
        match self {
            FaultPlan::Only(kind) => {
                matches!(kind, FaultKind::ShortPartitions | FaultKind::LongPartitions)
            }
            FaultPlan::Mixed { .. } => true,
            FaultPlan::OneAtATime => false,
        }
    }

    pub fn has_freezes(self) -> bool {
        match self {
            FaultPlan::Only(kind) => kind == FaultKind::Freezes,
            FaultPlan::Mixed { without } => without != 2,
            FaultPlan::OneAtATime => false,
        }
    }

    /// Whether the hosts' boot clocks run at different rates. No call may fail because of that.
    pub fn clocks_differ(self, random: &FakeRandom) -> bool {
        match self {
            FaultPlan::Only(kind) => {
                matches!(kind, FaultKind::Clocks | FaultKind::LongPartitions)
                    || (kind == FaultKind::MetadataCopies && random.one_in(2))
            }
            FaultPlan::Mixed { .. } | FaultPlan::OneAtATime => random.one_in(2),
        }
    }

    pub fn has_client_faults(self) -> bool {
        match self {
            FaultPlan::Only(kind) => matches!(kind, FaultKind::ClientKills | FaultKind::Clocks),
            FaultPlan::Mixed { without } => without != 2,
            FaultPlan::OneAtATime => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_is_alone_in_two_seeds_of_the_usual_run() {
        for kind in KINDS {
            let alone = (0..50).filter(|seed| FaultPlan::of(*seed) == FaultPlan::Only(kind));
            assert!(alone.count() >= 2, "{kind:?}");
        }
    }
}
