//! Jobs: the unit in which a site accounts for the use of its servers.
//!
//! A mount names the job of each process (`JobLabel`) and sends only its number with each request; it tells the metadata server the names once
//! (`MetaOp::NameJobs`). The number is computed from the label, so a job has one number on all hosts. A host can claim any label: what servers
//! count for a job is as trustworthy as the hosts that it names.

use crate::ids::{OstId, SessionId};
use crate::limits::BODY_MAX;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::AddAssign;

/// The number of a job: `JobLabel::id`. 0: unknown, for example work of a kernel that no process waits for.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct JobId(pub u64);

impl JobId {
    pub const UNKNOWN: JobId = JobId(0);
}

/// Longest name of a job, in bytes.
pub const JOB_NAME_MAX: usize = 96;

/// A name such as "slurm:4711" or "tar": 1 to 96 printable ASCII characters. It appears in tables and logs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobName(Box<str>);

impl JobName {
    /// The name that is left of any bytes: characters that are not printable ASCII become '?', what is too long is cut.
    pub fn from_bytes(bytes: &[u8]) -> JobName {
        let printable = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        };
        let name: String = bytes.iter().take(JOB_NAME_MAX).map(printable).collect();
        match name.trim().is_empty() {
            true => JobName("?".into()),
            false => JobName(name.into()),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for JobName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JobName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobName, D::Error> {
        let text = String::deserialize(deserializer)?;
        let name = JobName::from_bytes(text.as_bytes());
        match name.as_str() == text {
            true => Ok(name),
            false => Err(D::Error::custom("not a name of a job")),
        }
    }
}

/// What a job number stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct JobLabel {
    pub uid: u32,
    pub name: JobName,
}

impl JobLabel {
    /// The number that stands for this label: the first 8 bytes of the BLAKE3 hash of the uid (4 bytes, little-endian) and the name. Never 0.
    pub fn id(&self) -> JobId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.uid.to_le_bytes());
        hasher.update(self.name.as_str().as_bytes());
        let hash = *hasher.finalize().as_bytes();
        let (number, _) = hash.split_at(8);
        let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
        JobId(number.max(1))
    }
}

/// Most labels in one `MetaOp::NameJobs`.
pub const JOBS_NAMED_MAX: usize = 256;

/// Most jobs that a server counts apart, and most rows in one report of an object server: some 40 bytes each, 200 at most.
pub const JOB_ROWS_MAX: usize = 4096;
const _: () = assert!(JOB_ROWS_MAX as u64 * 200 <= BODY_MAX.get());

/// Most rows in one `JobUse`: some 150 bytes each, 900 at most.
pub const JOB_USE_ROWS_MAX: usize = 1024;
const _: () = assert!(JOB_USE_ROWS_MAX as u64 * 900 <= BODY_MAX.get());

/// The kinds of calls that servers count apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    /// Names and attributes that are only looked at.
    Stat,
    List,
    Open,
    Create,
    Remove,
    Rename,
    /// Attributes, extended attributes, sizes, layouts.
    Change,
    Lock,
    Read,
    Write,
    Sync,
    /// The client's own: leases, capabilities, reports.
    Client,
}

impl CallClass {
    pub const ALL: [CallClass; 12] = [
        CallClass::Stat,
        CallClass::List,
        CallClass::Open,
        CallClass::Create,
        CallClass::Remove,
        CallClass::Rename,
        CallClass::Change,
        CallClass::Lock,
        CallClass::Read,
        CallClass::Write,
        CallClass::Sync,
        CallClass::Client,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CallClass::Stat => "stat",
            CallClass::List => "list",
            CallClass::Open => "open",
            CallClass::Create => "create",
            CallClass::Remove => "remove",
            CallClass::Rename => "rename",
            CallClass::Change => "change",
            CallClass::Lock => "lock",
            CallClass::Read => "read",
            CallClass::Write => "write",
            CallClass::Sync => "sync",
            CallClass::Client => "client",
        }
    }
}

/// A job on one client: servers count for each of them.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct JobKey {
    pub session: SessionId,
    pub job: JobId,
}

/// What servers have done for one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobCounts {
    /// Indexed by `CallClass as usize`.
    pub calls: [u64; CallClass::ALL.len()],
    /// Calls that were answered with an error.
    pub errors: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// From the arrival of each call until its reply, in nanoseconds: work and waiting.
    pub nanos: u64,
}

impl JobCounts {
    pub fn calls_of(&self, class: CallClass) -> u64 {
        self.calls[class as usize]
    }

    pub fn all_calls(&self) -> u64 {
        self.calls
            .iter()
            .fold(0, |sum, calls| sum.saturating_add(*calls))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }

    /// What was counted since `earlier`, which counted the same job before.
    #[must_use]
    pub fn since(&self, earlier: &JobCounts) -> JobCounts {
        JobCounts {
            calls: std::array::from_fn(|at| self.calls[at].saturating_sub(earlier.calls[at])),
            errors: self.errors.saturating_sub(earlier.errors),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            nanos: self.nanos.saturating_sub(earlier.nanos),
        }
    }
}

impl AddAssign for JobCounts {
    /// Saturates: a hostile report must not make a server panic.
    fn add_assign(&mut self, other: JobCounts) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        for (sum, more) in self.calls.iter_mut().zip(other.calls) {
            add(sum, more);
        }
        add(&mut self.errors, other.errors);
        add(&mut self.bytes_read, other.bytes_read);
        add(&mut self.bytes_written, other.bytes_written);
        add(&mut self.nanos, other.nanos);
    }
}

/// What an object server has done for jobs since its last report that the metadata server has accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobReport {
    /// A random number of the object server's process.
    pub reporter: u64,
    /// Rises by one with each new report. The metadata server adds a report that it gets twice once.
    pub number: u64,
    pub rows: Vec<JobReportRow>,
    /// For jobs that are not in `rows`, because there were too many.
    pub others: JobCounts,
    pub targets: Vec<(OstId, JobCounts)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobReportRow {
    pub key: JobKey,
    pub counts: JobCounts,
}

/// What the servers have done for jobs, as the metadata server knows it: object servers report once a second.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobUse {
    /// The server's clock, in milliseconds: the difference of two replies gives rates.
    pub now: u64,
    /// Since when it counts, on the same clock.
    pub since: u64,
    /// Milliseconds before `now` in which `CountedUse::recent` was counted.
    pub window: u64,
    /// At most `JOB_USE_ROWS_MAX`, in the order of (session, job).
    pub rows: Vec<JobUseRow>,
    /// There are more: the next request continues behind this row.
    pub next: Option<JobKey>,
    /// For jobs that are not in `rows`, because there were too many.
    pub others: CountedUse,
    pub targets: Vec<(OstId, CountedUse)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobUseRow {
    pub key: JobKey,
    /// The name that the session's client gave itself; empty if unknown.
    pub client: String,
    /// None if the client has not said what the number stands for.
    pub label: Option<JobLabel>,
    pub counted: CountedUse,
}

/// Counts since `JobUse::since`, and in the last `JobUse::window`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CountedUse {
    pub total: JobCounts,
    pub recent: JobCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(uid: u32, name: &str) -> JobLabel {
        let name = JobName::from_bytes(name.as_bytes());
        JobLabel { uid, name }
    }

    #[test]
    fn any_bytes_make_a_printable_name() {
        let name = |bytes: &[u8]| JobName::from_bytes(bytes).to_string();
        assert_eq!(name(b"slurm:4711"), "slurm:4711");
        assert_eq!(name(b"a\nb\"\xff\0"), "a?b\"??");
        assert_eq!(name(b""), "?");
        assert_eq!(name(b"  "), "?");
        assert_eq!(name(&[b'x'; 500]).len(), JOB_NAME_MAX);
    }

    #[test]
    fn a_peer_cannot_send_another_name() {
        let decoded = |text: &str| {
            let bytes = postcard::to_allocvec(text).unwrap();
            postcard::from_bytes::<JobName>(&bytes).is_ok()
        };
        assert!(decoded("slurm:4711"));
        for text in ["", " ", "a\nb", "é", &"x".repeat(JOB_NAME_MAX + 1)] {
            assert!(!decoded(text), "{text:?}");
        }
    }

    #[test]
    fn a_label_has_one_number_everywhere_and_never_0() {
        assert_eq!(
            label(1000, "slurm:4711").id(),
            label(1000, "slurm:4711").id()
        );
        assert_ne!(
            label(1000, "slurm:4711").id(),
            label(1001, "slurm:4711").id()
        );
        assert_ne!(
            label(1000, "slurm:4711").id(),
            label(1000, "slurm:4712").id()
        );
        // The number is part of the protocol.
        assert_eq!(
            label(1000, "slurm:4711").id(),
            JobId(12_217_467_177_195_089_725)
        );
    }

    #[test]
    fn classes_are_indexed_by_their_numbers() {
        for (at, class) in CallClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at);
        }
    }

    #[test]
    fn counts_saturate() {
        let mut counts = JobCounts {
            nanos: u64::MAX,
            ..JobCounts::default()
        };
        counts += counts;
        assert_eq!(counts.nanos, u64::MAX);
        assert_eq!(JobCounts::default().since(&counts), JobCounts::default());
    }
}
