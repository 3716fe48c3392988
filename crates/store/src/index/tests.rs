//! One contract test for both kinds of index.

use super::*;
use gupfs_proto::{ClusterId, Incarnation};

fn updates(pairs: &[(&str, Option<&str>)]) -> IndexUpdates {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    pairs
        .iter()
        .map(|(key, value)| (bytes(key), value.map(bytes)))
        .collect()
}

fn contract(index: &Index) {
    assert_eq!(index.applied(), Seq(0));
    index
        .apply(
            Seq(3),
            &updates(&[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))]),
        )
        .unwrap();
    index
        .apply(Seq(5), &updates(&[("b", None), ("c", Some("4"))]))
        .unwrap();
    assert_eq!(index.applied(), Seq(5));
    assert_eq!(index.get(b"b").unwrap(), None);
    assert_eq!(index.get(b"c").unwrap().as_deref(), Some(&b"4"[..]));
    let from = |start| index.scan((start, Bound::Unbounded), 10).unwrap();
    assert_eq!(from(Bound::Included(Bytes::from_static(b"a"))).len(), 2);
    let behind = from(Bound::Excluded(Bytes::from_static(b"a")));
    assert_eq!(
        behind,
        [(Bytes::from_static(b"c"), Bytes::from_static(b"4"))]
    );
    assert_eq!(
        index
            .scan((Bound::Unbounded, Bound::Unbounded), 1)
            .unwrap()
            .len(),
        1
    );
    // A view does not change.
    let view = index.view();
    index
        .apply(Seq(5), &updates(&[("a", None), ("z", Some("9"))]))
        .unwrap();
    let all = || (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(view.scan(all(), 10).unwrap().len(), 2);
    assert_eq!(view.scan(all(), 10).unwrap()[0].0, "a");
    assert_eq!(index.scan(all(), 10).unwrap()[0].0, "c");
    index
        .apply(Seq(5), &updates(&[("a", Some("1")), ("z", None)]))
        .unwrap();
    index.persist().unwrap();
    let store = |incarnation| StoreId {
        cluster: ClusterId(1),
        incarnation: Incarnation(incarnation),
    };
    index.claim(store(2)).unwrap();
    index.claim(store(2)).unwrap();
    assert!(matches!(index.claim(store(3)), Err(IndexError::OtherStore)));
}

#[test]
fn fjall_keeps_the_contract_and_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
    contract(&index);
    drop(index);
    let index = Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
    assert_eq!(index.applied(), Seq(5));
    assert_eq!(index.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

fn put(index: &Index, seq: u64, key: &str, value: &str) {
    index
        .apply(Seq(seq), &updates(&[(key, Some(value))]))
        .unwrap();
}

fn get(index: &Index, key: &str) -> Option<String> {
    let found = index.get(key.as_bytes()).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn all(index: &Index) -> usize {
    let all = (Bound::Unbounded, Bound::Unbounded);
    index.scan(all, 1000).unwrap().len()
}

#[test]
fn data_that_was_not_persisted_is_dropped_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
    let index = open();
    put(&index, 3, "a", "1");
    index.persist().unwrap();
    put(&index, 5, "b", "2");
    drop(index);
    // The journal has the second batch, and the page cache would show it, whether or not the disk has it.
    let index = open();
    assert_eq!(index.applied(), Seq(3));
    assert_eq!(
        (get(&index, "a"), get(&index, "b")),
        (Some("1".into()), None)
    );
    assert_eq!(all(&index), 1);
    put(&index, 6, "b", "2");
    index.persist().unwrap();
    drop(index);
    assert_eq!(open().applied(), Seq(6));
}

#[test]
fn an_index_opens_although_its_journal_has_holes() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
    put(&index, 1, "a", "1");
    index.persist().unwrap();
    for seq in 2..50 {
        put(&index, seq, "large", &"v".repeat(20_000));
    }
    drop(index);
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "jnl") {
            // Pages that a failed write-back lost, within one value and across several.
            let file = std::fs::File::options().write(true).open(path).unwrap();
            for page in [1, 20, 21, 22, 23, 24, 25, 26, 27, 60] {
                std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], page * 4096).unwrap();
            }
        }
    }
    let index = Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
    assert_eq!(
        (index.applied(), get(&index, "a")),
        (Seq(1), Some("1".into()))
    );
}

#[test]
fn the_newest_value_wins_over_many_starts() {
    let dir = tempfile::tempdir().unwrap();
    for start in 1..=5u64 {
        let index = Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
        assert_eq!(index.applied(), Seq(start - 1));
        if start > 1 {
            assert_eq!(get(&index, "a"), Some((start - 1).to_string()));
        }
        put(&index, start, "a", &start.to_string());
        index.persist().unwrap();
        put(&index, start + 100, "lost", "in each start");
    }
}

#[test]
fn an_index_of_version_1_is_upgraded_with_the_content_of_its_journal() {
    use ::fjall::{Database, KeyspaceCreateOptions};
    let dir = tempfile::tempdir().unwrap();
    {
        let database = Database::builder(dir.path()).open().unwrap();
        let keyspace = |name| {
            database
                .keyspace(name, KeyspaceCreateOptions::default)
                .unwrap()
        };
        keyspace("records").insert("a", "1").unwrap();
        let own = keyspace("own");
        own.insert("version", 1u64.to_le_bytes()).unwrap();
        own.insert("applied", 7u64.to_le_bytes()).unwrap();
        database.persist(::fjall::PersistMode::SyncAll).unwrap();
    }
    for _ in 0..2 {
        let index = Index::open_fjall(dir.path(), OPEN_TABLES_MIN).unwrap();
        assert_eq!(
            (index.applied(), get(&index, "a")),
            (Seq(7), Some("1".into()))
        );
        assert_eq!(all(&index), 1);
    }
}

#[test]
fn the_fake_keeps_the_contract_and_persisted_data() {
    let fake = FakeIndex::new();
    let index = Index::fake(fake.clone());
    contract(&index);
    index.apply(Seq(6), &updates(&[("d", Some("5"))])).unwrap();
    fake.crash(&gupfs_platform::Random::real());
    let kept = index.applied();
    assert!(kept == Seq(5) || kept == Seq(6));
    assert_eq!(index.get(b"d").unwrap().is_some(), kept == Seq(6));
    assert!(index.get(b"a").unwrap().is_some());
}

/// Creates an index with tables, manifests and a journal, and closes it.
fn written(dir: &std::path::Path) {
    for round in 0..3u64 {
        let index = Index::open_fjall(dir, OPEN_TABLES_MIN).unwrap();
        for step in 0..20 {
            let seq = Seq(round * 20 + step + 1);
            let key = format!("key {:04}", seq.0 * 7 % 50);
            let value = format!("value {}", seq.0);
            index.apply(seq, &updates(&[(&key, Some(&value))])).unwrap();
        }
        index.persist().unwrap();
        index.flush_to_tables();
    }
}

fn everything(dir: &std::path::Path) -> Result<(Seq, Vec<(Bytes, Bytes)>), IndexError> {
    let index = Index::open_fjall(dir, OPEN_TABLES_MIN)?;
    let records = index.scan((Bound::Unbounded, Bound::Unbounded), 1_000)?;
    for (key, value) in &records {
        assert_eq!(index.get(key)?.as_ref(), Some(value));
    }
    Ok((index.applied(), records))
}

fn files_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for path in files_below(from) {
        let path_of_copy = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(path_of_copy.parent().unwrap()).unwrap();
        std::fs::copy(path, path_of_copy).unwrap();
    }
    // Empty directories belong to the index too.
    for keyspace in std::fs::read_dir(from.join("keyspaces")).unwrap() {
        let name = keyspace.unwrap().file_name();
        std::fs::create_dir_all(to.join("keyspaces").join(name).join("tables")).unwrap();
    }
}

/// A loss at the end of the journal is no damage: the index states the last batch that it has, and the log replays the
/// rest.
#[test]
fn a_flipped_bit_is_an_error_or_loses_only_what_the_log_replays() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    written(&whole);
    let (applied, right) = everything(&whole).unwrap();
    assert_eq!(applied, Seq(60));
    let mut reported = 0;
    for path in files_below(&whole) {
        let len = std::fs::metadata(&path).unwrap().len();
        let name = path.strip_prefix(&whole).unwrap();
        // Flips one bit in every byte of a small file, and in some bytes of a larger one.
        let step = (len / FLIPS).max(1) as usize;
        for offset in (0..len).step_by(step) {
            let flipped = dir.path().join("flipped");
            copy(&whole, &flipped);
            let path_of_copy = flipped.join(name);
            let mut bytes = std::fs::read(&path_of_copy).unwrap();
            bytes[offset as usize] ^= 1 << (offset % 8);
            std::fs::write(&path_of_copy, bytes).unwrap();
            match everything(&flipped) {
                Ok((Seq(60), records)) => assert!(records == right, "{name:?} at {offset}"),
                Ok((applied, _)) => assert!(applied < Seq(60), "{name:?} at {offset}"),
                Err(IndexError::Damaged(_) | IndexError::Engine(_)) => reported += 1,
                Err(other) => panic!("{name:?} at {offset}: {other}"),
            }
            std::fs::remove_dir_all(&flipped).unwrap();
        }
    }
    assert!(reported > 100, "{reported} flips were reported");
}

#[test]
fn verify_tables_reports_every_flipped_bit_of_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    written(&whole);
    Index::verify_tables(&whole).unwrap();
    let tables = files_below(&whole).into_iter();
    let tables: Vec<_> = tables
        .filter(|path| path.parent().unwrap().ends_with("tables"))
        .collect();
    assert!(tables.len() > 1);
    // A few tables that a later table has replaced are still there.
    let mut reported = 0;
    for path in &tables {
        let right = std::fs::read(path).unwrap();
        for offset in (0..right.len()).step_by(right.len() / 40 + 1) {
            let mut bytes = right.clone();
            bytes[offset] ^= 1 << (offset % 8);
            std::fs::write(path, bytes).unwrap();
            reported += usize::from(Index::verify_tables(&whole).is_err());
        }
        std::fs::write(path, right).unwrap();
    }
    assert!(reported >= 40, "{reported}");
    Index::verify_tables(&whole).unwrap();
}

/// Flips in one file: enough to hit each of its parts.
const FLIPS: u64 = 40;
