//! The faults of a seed. Two of five seeds have one kind of fault alone: there a call may fail only as SEMANTICS says
//! of that kind.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    Only(Kind),
    /// All kinds together, except for the servers or clients that this number spares.
    Mixed {
        without: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    MetadataKills,
    MetadataPower,
    ObjectKills,
    ObjectPower,
    FullDisk,
    /// Connections break, and hosts are partitioned for a time too short to end a session.
    ShortCuts,
    /// Clients are partitioned from the metadata server for so long that their sessions end.
    LongCuts,
    ClientKills,
    Clocks,
}

const KINDS: [Kind; 9] = [
    Kind::MetadataPower,
    Kind::ObjectKills,
    Kind::LongCuts,
    Kind::MetadataKills,
    Kind::ObjectPower,
    Kind::ClientKills,
    Kind::ShortCuts,
    Kind::FullDisk,
    Kind::Clocks,
];

impl Plan {
    pub fn of(seed: u64) -> Plan {
        match seed % 5 {
            part @ (1 | 3) => Plan::Only(KINDS[((seed / 5 * 2 + part / 2) % 9) as usize]),
            _ => Plan::Mixed {
                without: seed / 5 % 4,
            },
        }
    }

    pub fn only(self) -> Option<Kind> {
        match self {
            Plan::Only(kind) => Some(kind),
            Plan::Mixed { .. } => None,
        }
    }

    pub fn has_metadata_faults(self) -> bool {
        match self {
            Plan::Only(kind) => matches!(kind, Kind::MetadataKills | Kind::MetadataPower),
            Plan::Mixed { without } => without != 0,
        }
    }

    pub fn has_object_faults(self) -> bool {
        match self {
            Plan::Only(kind) => {
                matches!(kind, Kind::ObjectKills | Kind::ObjectPower | Kind::FullDisk)
            }
            Plan::Mixed { without } => without != 1,
        }
    }

    pub fn has_net_faults(self) -> bool {
        match self {
            Plan::Only(kind) => matches!(kind, Kind::ShortCuts | Kind::LongCuts),
            Plan::Mixed { .. } => true,
        }
    }

    pub fn has_client_faults(self) -> bool {
        match self {
            Plan::Only(kind) => matches!(kind, Kind::ClientKills | Kind::Clocks),
            Plan::Mixed { without } => without != 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_seed_of_its_own_in_the_usual_run() {
        for kind in KINDS {
            let alone = (0..50).filter(|seed| Plan::of(*seed) == Plan::Only(kind));
            assert!(alone.count() >= 2, "{kind:?}");
        }
    }
}
