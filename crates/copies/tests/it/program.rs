//! Programs that count in the store, by whichever owner answers.

use super::cluster::Cluster;
use super::host::Owned;
use bytes::Bytes;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::Seq;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// What programs were told.
#[derive(Default)]
pub struct Told {
    /// The highest number that a program was answered, or has read.
    pub counter: u64,
    /// Each number that was answered, and not lost by a power loss of all.
    pub answered: Vec<u64>,
    /// The highest number that was said to be durable.
    pub durable: u64,
    /// How often no copy had kept its memory, and one had lost power: what was answered and not durable may be lost.
    pub losses: u64,
    pub reads: u64,
    pub silent: u64,
}

const COUNTER: &[u8] = b"counter";

fn key_of(number: u64) -> Bytes {
    Bytes::from(format!("n{number:08}"))
}

fn number_in(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
    })
}

/// Adds one to the counter in one batch, with a record of its own and some bytes.
fn stage(owned: &Owned, random: &FakeRandom, turn: &Mutex<()>) -> Option<(u64, Seq)> {
    let _turn = turn.lock();
    let number = number_in(owned.kv.get(COUNTER).ok()?) + 1;
    let mut filler = vec![0; random.below(300) as usize];
    random.fill(&mut filler);
    let counter = Bytes::copy_from_slice(&number.to_le_bytes());
    let batch = vec![
        (Bytes::from_static(COUNTER), Some(counter)),
        (key_of(number), Some(Bytes::from(filler))),
    ];
    Some((number, owned.kv.stage(0, batch).ok()?))
}

/// One call by a process that believes to be the owner; the reply leaves only while the process may send.
async fn act(cluster: &Arc<Cluster>, random: &FakeRandom) {
    let owners: Vec<_> = cluster
        .hosts
        .iter()
        .filter_map(|host| host.owned())
        .collect();
    if owners.is_empty() {
        return;
    }
    let (process, owned) = &owners[random.below(owners.len() as u64) as usize];
    if owned.epoch < cluster.newest_epoch() {
        assert!(
            !process.send_deadline.may_send(),
            "owner {} may answer although there is a later one",
            owned.epoch
        );
        cluster.seen.lock().deposed_silent += 1;
    }
    let before = {
        let told = cluster.told.lock();
        (told.counter, told.durable, told.losses)
    };
    let is_read = random.one_in(3);
    let wants_durable = random.one_in(6);
    let replied = if is_read {
        let read = owned.kv.get(COUNTER).ok().map(number_in);
        // A read shows what is staged: it is answered when that is committed.
        let last = owned.kv.last_seq();
        match owned.kv.wait_committed(last).await {
            Ok(()) => read,
            Err(_) => None,
        }
    } else {
        let Some((number, seq)) = stage(owned, random, &cluster.turn) else {
            return;
        };
        let done = match wants_durable {
            true => owned.kv.wait_durable(seq).await,
            false => owned.kv.wait_committed(seq).await,
        };
        done.ok().map(|()| number)
    };
    let Some(number) = replied else {
        return;
    };
    let runs = cluster.runs_now(process);
    if !runs || process.is_frozen() || !process.send_deadline.may_send() {
        cluster.told.lock().silent += 1;
        return;
    }
    let mut told = cluster.told.lock();
    let (counter, durable, losses) = before;
    let floor = match losses == told.losses {
        true => counter,
        false => durable,
    };
    let least = floor + u64::from(!is_read);
    assert!(
        number >= least,
        "owner {} answers {number} after {floor} was answered (read: {is_read})",
        owned.epoch
    );
    if number > told.counter && std::env::var("GUPFS_SEED").is_ok() {
        println!("  {number} by run {} owner {}", process.run, owned.epoch);
    }
    told.counter = told.counter.max(number);
    match is_read {
        true => told.reads += 1,
        false => told.answered.push(number),
    }
    if wants_durable && !is_read {
        told.durable = told.durable.max(number);
    }
}

pub async fn run(cluster: Arc<Cluster>, random: FakeRandom) {
    while !cluster.is_over.load(SeqCst) {
        // A process that ends does not answer.
        let calling = act(&cluster, &random);
        tokio::select! {
            biased;
            () = calling => {}
            () = tokio::time::sleep(Duration::from_secs(4)) => {}
        }
        let pause = match random.one_in(10) {
            true => random.below(400),
            false => random.below(12),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
