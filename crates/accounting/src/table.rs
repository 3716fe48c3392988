//! The table: a row for each job on each client.

use crate::added_reports::AddedReports;
use crate::labels::LabelTable;
use crate::row::{PERIOD_NANOS, UseRow};
use gupfs_platform::hash::Map;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::jobs::{
    CallClass, JOB_ROWS_MAX, JOB_USE_ROWS_MAX, JobCounts, JobKey, JobReport, JobReportRow, JobUse,
    JobUseRow,
};
use gupfs_proto::{JobLabel, OstId, SessionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One call that a server has answered.
#[derive(Clone, Copy, Debug)]
pub struct FinishedCall {
    pub key: JobKey,
    pub class: CallClass,
    /// The target that it went to; None: the metadata server.
    pub ost: Option<OstId>,
    pub has_failed: bool,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub took: Duration,
}

impl FinishedCall {
    fn counts(&self) -> JobCounts {
        let mut counts = JobCounts {
            errors: u64::from(self.has_failed),
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            nanos: self.took.as_nanos() as u64,
            ..JobCounts::default()
        };
        counts.calls[self.class as usize] = 1;
        counts
    }
}

/// What this server, and the object servers that report to it, have done for jobs.
pub struct JobTable {
    clock: Clock,
    since: u64,
    rows: Mutex<Rows>,
}

/// What a report brings.
pub(crate) struct UnreportedCounts {
    pub rows: Vec<JobReportRow>,
    pub others: JobCounts,
    pub targets: Vec<(OstId, JobCounts)>,
}

#[derive(Default)]
struct Rows {
    jobs: Map<JobKey, UseRow>,
    others: UseRow,
    targets: BTreeMap<OstId, UseRow>,
    labels: LabelTable,
    /// Names of the clients whose sessions have rows.
    clients: BTreeMap<SessionId, String>,
    added_reports: AddedReports,
}

impl JobTable {
    pub fn new(clock: Clock) -> JobTable {
        JobTable {
            since: clock.boot().0,
            clock,
            rows: Mutex::default(),
        }
    }

    /// For `FinishedCall::took`.
    pub fn now(&self) -> BootTime {
        self.clock.boot()
    }

    /// Counts a call. Costs one lookup under a lock.
    pub fn count(&self, call: FinishedCall) {
        let (period, counts) = (self.period(), call.counts());
        let mut rows = self.rows.lock();
        rows.add(call.key, counts, period);
        if let Some(ost) = call.ost {
            rows.targets.entry(ost).or_default().add(counts, period);
        }
    }

    /// A client says what numbers of its requests stand for.
    pub fn add_labels(&self, labels: Vec<JobLabel>) {
        let mut rows = self.rows.lock();
        let Rows {
            jobs,
            labels: known,
            ..
        } = &mut *rows;
        for label in labels {
            known.add(label, || jobs.keys().map(|key| key.job).collect());
        }
    }

    /// Adds the report of an object server, unless it was added before.
    pub fn add_report(&self, report: &JobReport) {
        let period = self.period();
        let mut rows = self.rows.lock();
        if !rows.added_reports.is_new(report) {
            return;
        }
        for row in &report.rows {
            rows.add(row.key, row.counts, period);
        }
        rows.others.add(report.others, period);
        for (ost, counts) in &report.targets {
            rows.targets.entry(*ost).or_default().add(*counts, period);
        }
    }

    /// The counts behind the row `after`. `client_of` names the client of a session that is still registered.
    pub fn job_use(
        &self,
        after: Option<JobKey>,
        client_of: impl Fn(SessionId) -> Option<String>,
    ) -> JobUse {
        let (now, period) = (self.clock.boot().0, self.period());
        let mut rows = self.rows.lock();
        rows.name_clients(&client_of);
        let mut keys: Vec<JobKey> = rows.jobs.keys().copied().collect();
        keys.retain(|key| Some(*key) > after);
        keys.sort_unstable();
        let next = (keys.len() > JOB_USE_ROWS_MAX).then(|| keys[JOB_USE_ROWS_MAX - 1]);
        keys.truncate(JOB_USE_ROWS_MAX);
        let mut listed = Vec::with_capacity(keys.len());
        for key in keys {
            let counted = rows.jobs.get_mut(&key).map(|row| row.counted(period));
            listed.push(JobUseRow {
                key,
                client: rows.clients.get(&key.session).cloned().unwrap_or_default(),
                label: rows.labels.get(key.job).cloned(),
                counted: counted.unwrap_or_default(),
            });
        }
        let millis = |nanos: u64| nanos / 1_000_000;
        let window_from = period.saturating_sub(1) * PERIOD_NANOS;
        let targets = rows.targets.iter_mut();
        JobUse {
            now: millis(now),
            since: millis(self.since),
            window: millis(now - window_from.max(self.since).min(now)),
            rows: listed,
            next,
            targets: targets
                .map(|(ost, row)| (*ost, row.counted(period)))
                .collect(),
            others: rows.others.counted(period),
        }
    }

    /// What was counted since the last call; None: nothing.
    pub(crate) fn take_unreported(&self) -> Option<UnreportedCounts> {
        let none = JobCounts::default();
        let mut table = self.rows.lock();
        let others = table.others.take_unreported();
        let rows = table.jobs.iter_mut().map(|(key, row)| JobReportRow {
            key: *key,
            counts: row.take_unreported(),
        });
        let rows: Vec<JobReportRow> = rows.filter(|row| row.counts != none).collect();
        let targets = table.targets.iter_mut();
        let targets = targets.map(|(ost, row)| (*ost, row.take_unreported()));
        let targets: Vec<(OstId, JobCounts)> = targets.filter(|(_, it)| *it != none).collect();
        let is_empty = rows.is_empty() && others == none && targets.is_empty();
        (!is_empty).then_some(UnreportedCounts {
            rows,
            others,
            targets,
        })
    }

    fn period(&self) -> u64 {
        self.clock.boot().0 / PERIOD_NANOS
    }
}

impl Rows {
    fn add(&mut self, key: JobKey, counts: JobCounts, period: u64) {
        if let Some(row) = self.jobs.get_mut(&key) {
            row.add(counts, period);
            return;
        }
        if self.jobs.len() >= JOB_ROWS_MAX {
            self.evict(period);
        }
        let mut row = UseRow::default();
        row.add(counts, period);
        self.jobs.insert(key, row);
    }

    /// Merges the eighth of the rows with the least recent calls into `others`: of those, the ones with the fewest calls in all.
    fn evict(&mut self, period: u64) {
        let quietness = |(key, row): (&JobKey, &mut UseRow)| {
            let counted = row.counted(period);
            let (recent, total) = (counted.recent.all_calls(), counted.total.all_calls());
            (recent, total, *key)
        };
        let mut quietest: Vec<(u64, u64, JobKey)> = self.jobs.iter_mut().map(quietness).collect();
        quietest.sort_unstable();
        for (_, _, key) in quietest.into_iter().take(JOB_ROWS_MAX / 8) {
            if let Some(mut row) = self.jobs.remove(&key) {
                row.merge_into(&mut self.others, period);
            }
        }
    }

    /// Keeps the name of each client that has a row, also after the end of its session.
    fn name_clients(&mut self, client_of: impl Fn(SessionId) -> Option<String>) {
        let sessions: BTreeSet<SessionId> = self.jobs.keys().map(|key| key.session).collect();
        self.clients.retain(|session, _| sessions.contains(session));
        for session in sessions {
            if !self.clients.contains_key(&session)
                && let Some(client) = client_of(session)
            {
                self.clients.insert(session, client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobReporter;
    use gupfs_platform::fake::FakePlatform;
    use gupfs_proto::{JobId, JobName};

    fn key(session: u64, job: u64) -> JobKey {
        JobKey {
            session: SessionId(session),
            job: JobId(job),
        }
    }

    fn read(key: JobKey, bytes_read: u64) -> FinishedCall {
        FinishedCall {
            key,
            class: CallClass::Read,
            ost: Some(OstId(3)),
            has_failed: false,
            bytes_read,
            bytes_written: 0,
            took: Duration::from_micros(5),
        }
    }

    fn table() -> JobTable {
        JobTable::new(FakePlatform::new(1).platform().clock)
    }

    fn bytes_in_all(table: &JobTable) -> u64 {
        let mut sum = table.job_use(None, |_| None).others.total.bytes_read;
        let mut after = None;
        loop {
            let page = table.job_use(after, |_| None);
            sum += page
                .rows
                .iter()
                .map(|row| row.counted.total.bytes_read)
                .sum::<u64>();
            after = page.next;
            if after.is_none() {
                return sum;
            }
        }
    }

    #[test]
    fn a_call_counts_for_its_job_and_its_target() {
        let table = table();
        table.count(read(key(1, 2), 100));
        table.count(read(key(1, 2), 11));
        let label = JobLabel {
            uid: 5,
            name: JobName::from_bytes(b"tar"),
        };
        let job_use = table.job_use(None, |session| Some(format!("node{session}:/mnt")));
        assert_eq!(job_use.rows.len(), 1);
        let row = &job_use.rows[0];
        assert_eq!(
            (row.key, row.client.as_str(), &row.label),
            (key(1, 2), "node1:/mnt", &None)
        );
        assert_eq!(row.counted.total.calls_of(CallClass::Read), 2);
        assert_eq!(row.counted.recent.bytes_read, 111);
        assert_eq!(job_use.targets[0].0, OstId(3));
        assert_eq!(job_use.targets[0].1.total.bytes_read, 111);
        table.add_labels(vec![label.clone()]);
        table.count(read(key(1, label.id().0), 1));
        let job_use = table.job_use(None, |_| None);
        assert!(
            job_use
                .rows
                .iter()
                .any(|row| row.label.as_ref() == Some(&label))
        );
        assert_eq!(
            job_use.rows[0].client, "node1:/mnt",
            "the name outlives the session"
        );
    }

    #[test]
    fn a_million_jobs_keep_the_busy_one_and_all_sums() {
        let table = table();
        for job in 0..1_000_000 {
            table.count(read(key(1, 1 + job), 1));
            if job % 100 == 0 {
                table.count(read(key(2, 0), 1000));
            }
        }
        assert!(table.rows.lock().jobs.len() <= JOB_ROWS_MAX);
        let busy = table
            .rows
            .lock()
            .jobs
            .get_mut(&key(2, 0))
            .unwrap()
            .counted(0);
        assert_eq!(busy.total.bytes_read, 10_000_000);
        assert_eq!(bytes_in_all(&table), 11_000_000);
    }

    #[test]
    fn pages_have_each_row_once() {
        let table = table();
        for job in 0..3000 {
            table.count(read(key(1, job), 1));
        }
        let (mut after, mut seen) = (None, 0);
        loop {
            let page = table.job_use(after, |_| None);
            assert!(page.rows.iter().all(|row| Some(row.key) > after));
            seen += page.rows.len();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, 3000);
    }

    #[test]
    fn a_report_that_arrives_twice_counts_once() {
        let (oss, mds) = (table(), table());
        let mut reporter = JobReporter::new(77);
        assert_eq!(reporter.next(&oss), None);
        oss.count(read(key(1, 2), 100));
        let first = reporter.next(&oss).unwrap();
        mds.add_report(&first);
        // The reply was lost: the same report is sent again, without what was counted since.
        oss.count(read(key(1, 2), 11));
        assert_eq!(reporter.next(&oss), Some(first.clone()));
        mds.add_report(&first);
        assert_eq!(bytes_in_all(&mds), 100);
        reporter.accepted();
        mds.add_report(&reporter.next(&oss).unwrap());
        reporter.accepted();
        assert_eq!(reporter.next(&oss), None);
        assert_eq!(bytes_in_all(&mds), 111);
        let job_use = mds.job_use(None, |_| None);
        assert_eq!(job_use.targets[0].1.total.bytes_read, 111);
    }
}
