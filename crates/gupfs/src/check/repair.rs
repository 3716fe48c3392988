//! Mending what loses nothing: records through the shard machine, objects that nothing names by removal.

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
use gupfs_proto::{Caller, Seq, SessionId};
use gupfs_store::kv::Kv;
use std::collections::BTreeMap;

/// Rounds in which one repair may ask for more records.
const ROUNDS: u32 = 4_096;

impl Store {
    /// Returns what was mended.
    pub(super) async fn repair(&self, faults: Vec<CheckFault>) -> CliResult<Vec<CheckFault>> {
        let mut mended = Vec::new();
        for fault in faults {
            let done = match &fault {
                CheckFault::Record(problem) => self.repair_record(problem).await?,
                CheckFault::Object(problem) => self.remove_object(problem).await,
                CheckFault::Target(..) => false,
            };
            if done {
                mended.push(fault);
            }
        }
        let last = self.kv.last_seq();
        self.kv
            .wait_durable(last)
            .await
            .or_cli_error(|| "the repairs could not be made durable".into())?;
        Ok(mended)
    }

    async fn repair_record(&self, problem: &Problem) -> CliResult<bool> {
        let chore = BackgroundOp::Repair(problem.clone());
        self.run_background_op(&chore, &problem.to_string()).await
    }

    /// Applies a chore and commits what it changes, in as many batches as that takes; false if it is refused.
    pub(super) async fn run_background_op(
        &self,
        chore: &BackgroundOp,
        problem: &str,
    ) -> CliResult<bool> {
        let failed = || format!("cannot commit the repair of: {problem}");
        loop {
            let effects = self.apply(chore)?;
            if let Err(refusal) = effects.reply {
                tracing::warn!(%problem, %refusal, "cannot be repaired");
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

    /// Applies a chore to the records as they are now, fetching what it needs.
    fn apply(&self, chore: &BackgroundOp) -> CliResult<Effects> {
        let shards = shards(&self.kv)?;
        let root = Caller::root();
        let mut machine = ShardMachine::new();
        let mut known = Fetched::default();
        // One for all attempts: what a chore makes must ask for the same records in each.
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
            match machine.apply(&known, &context, Operation::Background(chore)) {
                ApplyResult::Done(effects) => return Ok(effects),
                ApplyResult::Needs(Prerequisite::Keys(keys)) => known.fetch(&self.kv, keys)?,
                ApplyResult::Needs(Prerequisite::Scan { range, limit }) => {
                    known.read(&self.kv, range, limit)?
                }
                ApplyResult::Needs(other) => {
                    return Err(CliError::new(format!(
                        "a repair needs what only a running store has: {other:?}"
                    ))
                    .todo("start and stop the store once, then check again"));
                }
            }
        }
        Err(CliError::new("a repair asks for ever more records"))
    }

    async fn remove_object(&self, problem: &ObjectProblem) -> bool {
        let ObjectProblem::WithoutInode { ost, object, .. } = problem else {
            return false;
        };
        let target = self.targets.iter().find(|(id, _)| id == ost);
        let Some((_, Ok(objects))) = target else {
            return false;
        };
        match objects.remove(*object).await {
            Ok(_) => true,
            Err(refusal) => {
                tracing::warn!(%problem, %refusal, "cannot be removed");
                false
            }
        }
    }
}

/// Records as one repair sees them. Nobody else changes them.
#[derive(Default)]
struct Fetched {
    values: BTreeMap<RecordKey, Option<Bytes>>,
    scans: Vec<Scanned>,
}

/// What was asked, at most how many, what was found.
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
