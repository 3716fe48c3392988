//! Repairs that lose no data: of records through the state machine of the shard, of objects without inode by removal.

use super::objects::ObjectProblem;
use super::records::{bytes, shards};
use super::{CheckFault, Store};
use crate::exit::{CliError, CliResult, OrCliError};
use bytes::Bytes;
use gupfs_namespace::check::Problem;
use gupfs_namespace::rights::OpenRights;
use gupfs_namespace::{
    ApplyResult, BackgroundOp, CachedRecord, CallbackResults, Effects, KeyRange, OpContext,
    Operation, Prerequisite, RecordKey, RecordSource, ShardMachine,
};
use gupfs_proto::{Caller, ObjectId, OstId, Seq, SessionId};
use gupfs_store::kv::Kv;
use std::collections::BTreeMap;

/// How often the state machine may request more records for one repair.
const ROUNDS: u32 = 4_096;

impl Store {
    /// Returns the problems that were repaired.
    ///
    /// # Errors
    /// If a repair cannot be committed or made durable.
    pub(super) async fn repair(&self, faults: Vec<CheckFault>) -> CliResult<Vec<CheckFault>> {
        let mut repaired = Vec::new();
        for fault in faults {
            let done = match &fault {
                CheckFault::Record(problem) => self.repair_record(problem).await?,
                CheckFault::Object(problem) => self.repair_object(problem).await?,
                CheckFault::Target(..) => false,
            };
            if done {
                repaired.push(fault);
            }
        }
        let last = self.kv.last_seq();
        self.kv
            .wait_durable(last)
            .await
            .or_cli_error(|| "cannot make the repairs durable".into())?;
        Ok(repaired)
    }

    async fn repair_record(&self, problem: &Problem) -> CliResult<bool> {
        let operation = BackgroundOp::Repair(problem.clone());
        self.run_background_op(&operation, &problem.to_string())
            .await
    }

    /// Executes a background operation, in as many batches as it needs; returns false if the state machine refuses it.
    pub(super) async fn run_background_op(
        &self,
        operation: &BackgroundOp,
        problem: &str,
    ) -> CliResult<bool> {
        let failed = || format!("cannot commit the repair of: {problem}");
        loop {
            let effects = self.apply(operation)?;
            if let Err(refusal) = effects.reply {
                tracing::warn!(%problem, %refusal, "cannot repair a problem");
                return Ok(false);
            }
            if effects.batch.is_empty() {
                return Ok(true);
            }
            let batch = effects.batch.into_iter();
            let batch = batch.map(|(key, value)| (bytes(&key), value)).collect();
            let seq = self.kv.stage(0, batch).or_cli_error(failed)?;
            self.kv.wait_committed(seq).await.or_cli_error(failed)?;
            if !effects.unfinished {
                return Ok(true);
            }
        }
    }

    /// Applies a background operation to the current records, and fetches those that it needs.
    fn apply(&self, operation: &BackgroundOp) -> CliResult<Effects> {
        let shards = shards(&self.kv)?;
        let root = Caller::root();
        let mut machine = ShardMachine::new();
        let mut fetched = Fetched::default();
        // The same value for all attempts: an operation that creates something must request the same records in each.
        let entropy = self.platform.random.u64();
        for _ in 0..ROUNDS {
            let context = OpContext {
                now: self.platform.clock.now(),
                session: SessionId(0),
                slot_seq: None,
                caller: &root,
                open_rights: OpenRights::NONE,
                entropy,
                shards,
                owner_epoch: self.owner_epoch,
                targets: &[],
                growth_allowed: true,
                is_only_session: true,
                is_private_file: false,
                must_queue: false,
                callbacks: &CallbackResults::default(),
                seq: Seq(0),
                replay: None,
            };
            match machine.apply(&fetched, &context, Operation::Background(operation)) {
                ApplyResult::Done(effects) => return Ok(effects),
                ApplyResult::Needs(Prerequisite::Keys(keys)) => fetched.fetch(&self.kv, keys)?,
                ApplyResult::Needs(Prerequisite::Scan { range, limit }) => {
                    fetched.read(&self.kv, range, limit)?
                }
                ApplyResult::Needs(other) => {
                    return Err(CliError::new(format!(
                        "a repair needs a running server: {other:?}"
                    ))
                    .todo("start and stop the server once, then check again"));
                }
            }
        }
        Err(CliError::new("a repair requested too many records"))
    }

    async fn repair_object(&self, problem: &ObjectProblem) -> CliResult<bool> {
        match problem {
            ObjectProblem::WithoutInode { ost, object, .. } => {
                Ok(self.remove_object(problem, *ost, *object).await)
            }
            ObjectProblem::WrongOst {
                ost,
                object,
                superseded: true,
                ..
            } => Ok(self.quarantine_object(problem, *ost, *object).await),
            ObjectProblem::Lost {
                object,
                partner: Some(partner),
                ..
            }
            | ObjectProblem::Damaged {
                object,
                partner: Some(partner),
                ..
            } => {
                let operation = BackgroundOp::MarkStale {
                    ino: object.ino,
                    objects: vec![(partner.component, partner.index)],
                };
                self.run_background_op(&operation, &problem.to_string())
                    .await
            }
            _ => Ok(false),
        }
    }

    /// Where the metadata is an older copy, this object may be the newer one of the two: it is kept in lost+found.
    async fn quarantine_object(
        &self,
        problem: &ObjectProblem,
        ost: OstId,
        object: ObjectId,
    ) -> bool {
        let target = self.targets.iter().find(|(id, _)| *id == ost);
        let Some((_, Ok(objects))) = target else {
            return false;
        };
        let quarantined = objects.quarantine(object).await;
        if let Err(refusal) = &quarantined {
            tracing::warn!(%problem, %refusal, "cannot quarantine an object that another OST has");
        }
        quarantined.is_ok()
    }

    async fn remove_object(&self, problem: &ObjectProblem, ost: OstId, object: ObjectId) -> bool {
        let target = self.targets.iter().find(|(id, _)| *id == ost);
        let Some((_, Ok(objects))) = target else {
            return false;
        };
        match objects.remove(object).await {
            Ok(_) => true,
            Err(refusal) => {
                tracing::warn!(%problem, %refusal, "cannot remove an object without inode");
                false
            }
        }
    }
}

/// The records that one repair has fetched. No other process changes them.
#[derive(Default)]
struct Fetched {
    values: BTreeMap<RecordKey, Option<Bytes>>,
    scans: Vec<Scanned>,
}

/// Range, limit, records.
type Scanned = (KeyRange, usize, Vec<(RecordKey, Bytes)>);

impl Fetched {
    fn fetch(&mut self, kv: &Kv, keys: Vec<RecordKey>) -> CliResult<()> {
        for key in keys {
            let value = kv
                .get(key.as_bytes())
                .or_cli_error(|| "cannot read the metadata store".into())?;
            self.values.insert(key, value);
        }
        Ok(())
    }

    fn read(&mut self, kv: &Kv, range: KeyRange, limit: usize) -> CliResult<()> {
        let records = kv
            .scan(bytes(&range.from), bytes(&range.to), limit)
            .or_cli_error(|| "cannot read the metadata store".into())?;
        let records = records
            .into_iter()
            .map(|(key, value)| (RecordKey::from_bytes(&key), value))
            .collect();
        self.scans.push((range, limit, records));
        Ok(())
    }
}

impl RecordSource for Fetched {
    fn get(&self, key: &RecordKey) -> CachedRecord {
        match self.values.get(key) {
            Some(value) => CachedRecord::Value(value.clone()),
            None => CachedRecord::Unknown,
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(RecordKey, Bytes)>> {
        self.scans
            .iter()
            .find(|(known, most, _)| known == range && *most == limit)
            .map(|(_, _, records)| records.clone())
    }
}
