//! Counts the tests of `mpi` as not run where the feature is off.

#![cfg(not(feature = "mpi"))]

#[test]
fn programs_run_under_mpirun() {
    gupfs_skips::skip(
        gupfs_skips::Need::Mpi,
        "built without the feature mpi of gupfs-suite",
    );
}
