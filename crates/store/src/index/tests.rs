//! One contract for both kinds of index.

use super::*;
use gupfs_proto::{ClusterId, Incarnation};

fn changes(pairs: &[(&str, Option<&str>)]) -> Changes {
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
            &changes(&[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))]),
        )
        .unwrap();
    index
        .apply(Seq(5), &changes(&[("b", None), ("c", Some("4"))]))
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
    // A view stays as it was.
    let view = index.view();
    index
        .apply(Seq(5), &changes(&[("a", None), ("z", Some("9"))]))
        .unwrap();
    let all = || (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(view.scan(all(), 10).unwrap().len(), 2);
    assert_eq!(view.scan(all(), 10).unwrap()[0].0, "a");
    assert_eq!(index.scan(all(), 10).unwrap()[0].0, "c");
    index
        .apply(Seq(5), &changes(&[("a", Some("1")), ("z", None)]))
        .unwrap();
    index.persist().unwrap();
    let store = |incarnation| StoreId {
        cluster: ClusterId(1),
        incarnation: Incarnation(incarnation),
    };
    index.claim(store(2)).unwrap();
    index.claim(store(2)).unwrap();
    assert!(matches!(index.claim(store(3)), Err(IndexError::Foreign)));
}

#[test]
fn fjall_keeps_the_contract_and_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open_fjall(dir.path(), FILES_LEAST).unwrap();
    contract(&index);
    drop(index);
    let index = Index::open_fjall(dir.path(), FILES_LEAST).unwrap();
    assert_eq!(index.applied(), Seq(5));
    assert_eq!(index.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn the_fake_keeps_the_contract_and_what_was_persisted() {
    let fake = FakeIndex::new();
    let index = Index::fake(fake.clone());
    contract(&index);
    index.apply(Seq(6), &changes(&[("d", Some("5"))])).unwrap();
    fake.crash(&gupfs_world::Dice::real());
    let kept = index.applied();
    assert!(kept == Seq(5) || kept == Seq(6));
    assert_eq!(index.get(b"d").unwrap().is_some(), kept == Seq(6));
    assert!(index.get(b"a").unwrap().is_some());
}
