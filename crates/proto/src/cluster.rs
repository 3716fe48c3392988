//! Cluster requests: reports of object servers to the metadata server about their targets, and requests for the cluster map and
//! status.

use crate::copy::{CopiesChange, CopiesReport};
use crate::data::TargetCapacity;
use crate::domain::DomainName;
use crate::error::FsError;
use crate::ids::{
    ClusterId, Incarnation, InodeId, MapEpoch, OstId, OwnerEpoch, Seq, SessionId, VirtualShard,
    WriteVerifier,
};
use crate::jobs::{JobKey, JobReport, JobUse};
use crate::rebalance::{RebalanceChange, RebalanceState};
use crate::resync::{ResyncChange, ResyncState};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ClusterRequest {
    /// The report of object servers of versions without `Report`. The metadata server rejects it: it lacks the fields by which
    /// the server recognizes a restored store.
    LegacyReport {
        /// The address at which clients and the metadata server reach the object server: "host:port".
        address: String,
        targets: Vec<LegacyTargetReport>,
    },
    /// The cluster map: targets and their addresses. The reply is `Map`.
    Map,
    /// The status of the server that gets the request. The reply is `Status`.
    Status,
    /// Allocates an OST number for a new target with this incarnation. The same incarnation gets the same number again. The reply
    /// is `TargetRegistered`.
    RegisterTarget { incarnation: Incarnation },
    /// An object server's report on its targets, at its start and every second from then on. The reply is `Reported`.
    Report(OssReport),
    /// The write verifiers of targets (`DataReplyBody::DoneWithVerifier`). After their server has opened the
    /// targets it gets the retired ones from the metadata server before it serves; it retires one when a sync failed. The reply
    /// is `Verifiers`.
    Verifiers { targets: Vec<TargetVerifier> },
    /// An administrator declares that a target is lost for ever. `while_serving`: also if its server serves it now. The reply is
    /// `TargetLost` or `TargetServes`.
    DeclareLost { ost: OstId, while_serving: bool },
    /// The next files that have lost bytes with a target that was declared lost, from a position of an earlier reply, or None for the
    /// first ones. The reply is `LostFiles`.
    LostFiles {
        ost: OstId,
        from: Option<LostFilePosition>,
    },
    /// An administrator has the objects of a target moved to other targets, ends that, or asks how far it is. The reply is `Draining`.
    Drain { ost: OstId, action: DrainAction },
    /// An administrator removes a drained target from the cluster. The reply is `TargetRemoved`.
    ///
    /// # Errors
    /// `TargetDown` with a target that is not drained.
    RemoveTarget { ost: OstId },
    /// An administrator has all objects verified now, or asks how far that is. The reply is `Scrubbing`.
    Scrub { action: ScrubAction },
    /// A `Report` of an object server that has a name for its failure domain. The reply is `Reported`.
    ReportOfDomain {
        report: OssReport,
        domain: DomainName,
    },
    /// The failure domains among which members of mirrored stripes are placed. The reply is `Domains`.
    Domains,
    /// An administrator accepts a copy of a target that was refused because it may lack what the target has served; None: asks which one
    /// was refused. The reply is `RefusedCopy`.
    AcceptTargetLoss {
        ost: OstId,
        copy: Option<TargetCopy>,
    },
    /// As `Drain`, with a rate and pauses. The reply is `DrainState`.
    ManageDrain { ost: OstId, change: DrainChange },
    /// What a drain of the target would move: of the inodes from a position of an earlier reply on, or None for the first ones. The reply is
    /// `DrainRoom`.
    DrainRoom {
        ost: OstId,
        from: Option<LostFilePosition>,
    },
    /// An administrator has the use of the targets evened out, changes that, or asks how far it is. The reply is `Rebalancing`.
    Rebalance { change: RebalanceChange },
    /// An object server is about to stop its targets in order: sessions are told to use other members of mirrored stripes. The reply,
    /// `SessionsTold`, comes when they have replied, or after a while. Since version 9.
    TargetsStop { targets: Vec<StoppingTarget> },
    /// An administrator holds back the resync of mirrored files, or asks how far it is. The reply is `Resync`. Since version 9.
    Resync { change: ResyncChange },
    /// As `DrainRoom`, and which of these files and directories need the target. The reply is `DrainNeeds`. Since version 10.
    DrainNeeds {
        ost: OstId,
        from: Option<LostFilePosition>,
    },
    /// The copies of the metadata, as the process that gets the request knows them. The reply is `Copies`.
    ///
    /// # Errors
    /// `NotSupported` where the metadata has no copies.
    Copies,
    /// An administrator has another copy own the metadata, or removes one. The owner replies with `Copies` or `ChangeRefused`.
    ChangeCopies { change: CopiesChange },
    /// What an object server has done for jobs since its last report. The reply is `JobsReported`. Since version 12.
    ReportJobs(JobReport),
    /// What the servers do for jobs, of those behind this one. The reply is `JobUse`. Since version 12.
    JobUse { after: Option<JobKey> },
}

/// A target that is about to be stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoppingTarget {
    pub ost: OstId,
    /// `TargetIdentity::open_instance`: only the server of the target and the metadata server know it.
    pub open_instance: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DrainChange {
    /// Also changes the rate of a drain that has begun. `rate`: bytes that may be copied a second, 0: any number; None: as before.
    Start {
        rate: Option<u64>,
    },
    /// New files stay away, and nothing moves any more.
    Pause,
    Resume,
    /// Objects that were moved stay where they are.
    Cancel,
    Ask,
}

/// How far a drain is, how it is done, and how long it may take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainState {
    pub progress: DrainProgress,
    pub rate: Option<u64>,
    pub is_paused: bool,
    /// Of all drains together, for they move one object at a time: bytes that the walk under way has found to move, as far as it has not moved
    /// them yet, and the time for that at its rate so far. None: not known yet, or no walk is under way.
    pub bytes_left: Option<u64>,
    pub seconds_left: Option<u64>,
}

/// A part of what a drain would move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainRoomPart {
    /// Files with objects there among those examined, and the bytes of these objects, holes not counted as far as that is known.
    pub files: u64,
    pub bytes: u64,
    /// Inodes examined for this reply.
    pub examined: u64,
    /// Where the next request continues; None at the end.
    pub next: Option<LostFilePosition>,
    /// Space that the targets have that take new files, those on one file system counted once.
    pub available: u64,
}

/// A part of what a drain would move, and what it could not do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainNeeds {
    pub room: DrainRoomPart,
    /// Files among them whose mirrored stripes have no other failure domain for a member on this target or on one that is being drained:
    /// they would stay there.
    pub files_without_domain: u64,
    /// Directories whose new files could not be created without the target and those that are being drained: fewer failure domains than copies
    /// would be left.
    pub directories_without_domain: u64,
}

/// What identifies a copy of a target: the incarnation, and stamp and run in its superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetCopy {
    pub incarnation: Incarnation,
    pub stamp: u64,
    pub run: u64,
}

/// A copy of a target that was refused because it may lack what the target has served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusedCopy {
    pub copy: TargetCopy,
    /// The reason, and what it lacks as far as that is known.
    pub why: String,
    /// Of the server that has it; None: the metadata server's process.
    pub address: Option<String>,
    /// Number of its objects, and of those that the target had when it served last; None: not known.
    pub objects: Option<u64>,
    pub objects_before: Option<u64>,
    /// It serves as soon as its server opens it again.
    pub is_accepted: bool,
}

/// OSTs that may be lost together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailureDomain {
    /// "rack7", or "host 10.0.0.7", for an administrator.
    pub name: String,
    pub osts: Vec<OstId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ScrubAction {
    /// Reads at most so many bytes a second; None: as fast as it can.
    Start {
        rate: Option<u64>,
    },
    Ask,
}

/// How far a scrub is, and what scrubs have found since the start of the metadata server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ScrubSummary {
    /// One that was asked for is under way, and has examined so many inodes.
    pub is_scrubbing: bool,
    pub inodes_examined: u64,
    /// Those that have ended.
    pub passes: u64,
    /// Files that it could not verify whole, and why, for one of them.
    pub files_left: u64,
    pub why: Option<String>,
    pub bytes_verified: u64,
    pub blocks_repaired: u64,
    /// Members that could not be repaired in place, and are made anew.
    pub members_renewed: u64,
    /// Objects with damage that nothing can repair.
    pub damaged: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DrainAction {
    Start,
    /// Objects that were moved stay where they are.
    Cancel,
    Ask,
}

/// How far the drain of a target is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DrainProgress {
    /// None: the target is not being drained.
    pub since: Option<Timestamp>,
    /// A walk over all files that began after the start of the drain has found none with an object there.
    pub is_drained: bool,
    /// The walk that is under way has examined so many inodes; None between walks.
    pub inodes_examined: Option<u64>,
    /// Since the start of the metadata server, from all targets.
    pub files_moved: u64,
    pub bytes_moved: u64,
    /// Files that the last walk had to leave there; None before its end.
    pub files_left: Option<u64>,
    /// Why, for one of them.
    pub why: Option<String>,
    /// Bytes that objects take on the target's disk, or that others do who share it.
    pub used: u64,
    /// Space that other targets have in all.
    pub available_elsewhere: u64,
}

/// How far a listing of files has come: all inodes before this one are examined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostFilePosition {
    pub shard: VirtualShard,
    /// None: no inode of the shard is examined yet.
    pub after: Option<InodeId>,
}

/// A file that has lost bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostFile {
    pub ino: InodeId,
    /// Its first name from the root of the file system, with U+FFFD for bytes that are no UTF-8; None if it has no name.
    pub path: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OssReport {
    /// The address at which clients and the metadata server reach the object server: "host:port".
    pub address: String,
    pub targets: Vec<TargetReport>,
    /// The server has stopped its targets and ends: another server may serve them at once.
    pub stopping: bool,
}

/// One target in the report of its server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetReport {
    pub ost: OstId,
    /// Err: the server could not open the target, for this reason.
    pub open: Result<OpenTargetReport, String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenTargetReport {
    pub identity: TargetIdentity,
    /// None: the target's disk did not reply in time.
    pub space: Option<TargetCapacity>,
    /// The inventory, if the metadata server requested it (`TargetVerdict::ReportInventory`).
    pub inventory: Option<ObjectInventory>,
}

/// Identity of an open target, and the latest owner of the metadata that it has recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetIdentity {
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    /// Stamp and run in the target's superblock: how often the superblock was written, and by which open instance. An open
    /// instance that is not adopted reports those that it found there.
    pub stamp: u64,
    pub run: u64,
    /// Random number of this open instance of the target. Equal to `run` from its adoption on.
    pub open_instance: u64,
    /// The target was stopped cleanly and no open instance was adopted since.
    pub stopped: bool,
    pub owner: OwnerMark,
}

impl TargetIdentity {
    /// Whether this open instance wrote the superblock.
    pub fn is_adopted(&self) -> bool {
        self.run == self.open_instance
    }
}

/// An instance (one start) of a metadata server, and how far its log was durable when it sent this mark. Targets record the
/// latest mark that they received; a metadata store that does not know that mark is an older copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OwnerMark {
    pub epoch: OwnerEpoch,
    /// Random number made at each start: distinguishes an owner from a restored copy with the same epoch.
    pub run: u64,
    pub durable: Seq,
}

impl OwnerMark {
    pub fn is_same_instance(&self, other: &OwnerMark) -> bool {
        (self.epoch, self.run) == (other.epoch, other.run)
    }
}

/// Inventory of a target's objects: the numbers from which an older metadata store computes what it would lose.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectInventory {
    /// `newer_objects`: the number of objects that owners after `since` made. `newest`: the newest date of one.
    pub since: OwnerEpoch,
    pub newer_objects: u64,
    pub newest: Option<Timestamp>,
    /// For each virtual shard, an inode counter above the counters of all its objects.
    pub inode_counters: Vec<(VirtualShard, u64)>,
}

/// The write verifier of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetVerifier {
    pub ost: OstId,
    pub incarnation: Incarnation,
    pub verifier: WriteVerifier,
    /// The verifier is retired, because a sync failed: writes that were not synced count as lost.
    pub retired: bool,
}

/// One target in a `LegacyReport`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LegacyTargetReport {
    pub ost: OstId,
    /// Err: the server could not open the target, for this reason.
    pub open: Result<LegacyOpenTarget, String>,
}

/// An open target in a `LegacyReport`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LegacyOpenTarget {
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    pub stamp: u64,
    pub run: u64,
    pub space: TargetCapacity,
}

pub type ClusterReply = Result<ClusterReplyBody, FsError>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ClusterReplyBody {
    /// The reply to `LegacyReport`. `refused`: targets of the report that are not the registered ones, each with the reason; no
    /// program may use their bytes.
    LegacyReported {
        map_epoch: MapEpoch,
        refused: Vec<(OstId, String)>,
        /// The keys that verify capabilities; None where the metadata server issues none.
        capability_keys: Option<CapabilityKeys>,
    },
    Map(ClusterMap),
    TargetRegistered {
        ost: OstId,
    },
    /// The status as text, and as one JSON object.
    Status {
        text: String,
        json: String,
    },
    Reported {
        map_epoch: MapEpoch,
        /// The decision about each target of the report.
        verdicts: Vec<(OstId, TargetVerdict)>,
        /// The owner that replies. A target records this mark before it acts on the rest of the reply.
        owner: OwnerMark,
        /// The keys that verify capabilities; None where the metadata server issues none.
        capability_keys: Option<CapabilityKeys>,
    },
    /// The last retired write verifier of each target in the request that has one.
    Verifiers {
        retired: Vec<(OstId, WriteVerifier)>,
    },
    /// The target was not declared lost, because its server serves it: at this address; None: in the metadata server's process.
    TargetServes {
        address: Option<String>,
    },
    /// The target is recorded as lost, durably.
    TargetLost {
        since: Timestamp,
        /// False: it was declared lost before.
        is_new: bool,
    },
    LostFiles {
        files: Vec<LostFile>,
        /// Inodes examined for this reply.
        examined: u64,
        /// Where the next request continues; None at the end.
        next: Option<LostFilePosition>,
    },
    Draining(DrainProgress),
    /// The target is recorded as removed, durably.
    TargetRemoved {
        since: Timestamp,
        /// False: it was removed before.
        is_new: bool,
    },
    Scrubbing(ScrubSummary),
    Domains(Vec<FailureDomain>),
    RefusedCopy(RefusedCopy),
    DrainState(DrainState),
    DrainRoom(DrainRoomPart),
    Rebalancing(RebalanceState),
    /// The reply to `TargetsStop`. `sessions`: those that have replied.
    SessionsTold {
        sessions: u64,
    },
    Resync(ResyncState),
    DrainNeeds(DrainNeeds),
    Copies(CopiesReport),
    /// The reply to `ChangeCopies`: it is not possible, for this reason.
    ChangeRefused {
        why: String,
    },
    JobsReported,
    JobUse(JobUse),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TargetVerdict {
    /// The target is the registered one. It writes its open instance into its superblock, and reports again. It does not serve
    /// yet.
    Adopt,
    /// The target serves.
    Serve,
    /// The target serves, and raises its stamp at once: a copy of it was opened elsewhere.
    RaiseStamp,
    /// The target does not serve and continues to report; the reason is for the operator.
    Wait(String),
    /// The target does not serve, and reports its objects that are newer than this owner.
    ReportInventory { since: OwnerEpoch },
    /// The target is not the registered one: no program may use its bytes.
    Refused(String),
}

/// The keys with which an object server verifies the capabilities of this owner (`capability`), for its own targets only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CapabilityKeys {
    pub epoch: OwnerEpoch,
    /// The owner's boot clock in milliseconds, when it sent these keys.
    pub now: u64,
    /// Shares from which the object server derives the keys, with the cluster's key: for session capabilities, and for the object
    /// capabilities of each of its targets.
    pub session_key: KeyShare,
    pub ost_keys: Vec<(OstId, KeyShare)>,
    /// Ended sessions whose session capabilities may not have expired yet: the object server rejects them.
    pub ended_sessions: Vec<SessionId>,
}

/// Half of a capability key; the other half is the cluster's key, which no message carries.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyShare(pub [u8; 32]);

impl std::fmt::Debug for KeyShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyShare")
    }
}

/// The cluster map: the addresses of the targets, without those that were declared lost. It changes rarely; every metadata reply contains
/// the newest epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterMap {
    pub epoch: MapEpoch,
    /// In ascending order of `ost`.
    pub targets: Vec<TargetAddress>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetAddress {
    pub ost: OstId,
    /// Empty: the target is at the metadata server. None: its server has not reported since the metadata server started.
    pub address: Option<String>,
}
