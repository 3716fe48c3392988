//! A store on a real disk: fjall's index and journal.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_store_opens_again_after_its_process_just_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let random = FakeRandom::new(7);
    for instance in 0..4 {
        let (kv, found) = open_real(dir.path(), &options()).await;
        assert_eq!(found.log.last, Seq(instance * 500));
        check(&kv, &model, &random);
        for n in 0..500 {
            let batch = batch(&random);
            put(&mut model, &batch);
            let seq = kv.stage(0, batch).unwrap();
            kv.wait_committed(seq).await.unwrap();
            if n == 250 {
                // Part of the batches reaches the index.
                kv.wait_durable(seq).await.unwrap();
                tokio::time::sleep(limits::GROUP_WAIT * 2).await;
            }
        }
        if instance == 2 {
            kv.stop(StopMode::Clean).await.unwrap();
        }
    }
}

/// After a power loss, the end of fjall's journal that it did not sync may be gone. The log still has these batches,
/// and replays them.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_replays_what_fjall_lost() {
    let random = FakeRandom::new(11);
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let mut replays = Vec::new();
    let never_persisted = KvOptions {
        persist_bytes: u64::MAX,
        ..options()
    };
    for _round in 0..6 {
        {
            let (kv, found) = open_real(dir.path(), &never_persisted).await;
            replays.push(found.replayed);
            check(&kv, &model, &random);
            for _ in 0..300 {
                let batch = batch(&random);
                put(&mut model, &batch);
                kv.stage(0, batch).unwrap();
            }
            kv.wait_durable(kv.last_seq()).await.unwrap();
            tokio::time::sleep(limits::GROUP_WAIT * 2).await;
        }
        drop(open_index(dir.path()).await); // waits until the index is closed
        for entry in std::fs::read_dir(dir.path().join("index")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "jnl") {
                let mut bytes = std::fs::read(&path).unwrap();
                let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                let keep = end / 2 + random.below(end as u64 / 2 + 1) as usize;
                bytes[keep..].fill(0);
                std::fs::write(&path, bytes).unwrap();
            }
        }
    }
    assert!(
        replays.iter().filter(|count| **count > 0).count() >= 3,
        "{replays:?}"
    );
}

async fn open_real(dir: &std::path::Path, options: &KvOptions) -> (Kv, KvRecovery) {
    let index = open_index(dir).await;
    let disk = Disk::real(dir).unwrap();
    Kv::open(disk, index, options.clone(), Platform::real())
        .await
        .unwrap()
}

/// Waits for the tasks of the previous instance, which keep the index open until they end.
async fn open_index(dir: &std::path::Path) -> Index {
    for _ in 0..500 {
        match Index::open_fjall(&dir.join("index"), OPEN_TABLES_MIN) {
            Ok(index) => return index,
            Err(IndexError::Engine(why)) if why.contains("Locked") => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the index stays locked");
}
