//! The POSIX suite on a real mount.

mod running;

use gupfs_conform::{Filter, run};
use running::{TestStore, can_mount};

#[test]
fn the_mount_conforms_to_posix() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let running = test_store.up();
    let report = run(&test_store.mnt(), &Filter::default()).unwrap();
    println!("{report}");
    assert_eq!(running.stop(), 0);
    let failed: Vec<&str> = report.failures().map(|tried| tried.name.as_str()).collect();
    assert!(
        failed.is_empty(),
        "{} checks failed: {failed:#?}",
        failed.len()
    );
}
