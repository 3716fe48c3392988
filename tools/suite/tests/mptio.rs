//! The program `mptio` as a person starts it.

mod program;

use program::{Program, empty};

const MPTIO: &str = env!("CARGO_BIN_EXE_mptio");

#[test]
fn each_shape_runs_all_tests_and_finds_its_data_right() {
    let dir = tempfile::tempdir().unwrap();
    for shape in [
        "-G",
        "-P",
        "-T",
        "-O p",
        "-O t",
        "-O p -O t",
        "-O t -P",
        "-I",
        "-s 1000 -b 1000",
    ] {
        for rotate in ["", "-r"] {
            let record = if shape.contains("-b") { "" } else { "-b 4K" };
            let flags = format!("--np 3 -f 300K {record} -t 2 -C {shape} {rotate}");
            let done = Program::new(MPTIO, &flags).on("-d", dir.path()).run();
            assert_eq!(done.code, Some(0), "{flags}: {}", done.err);
            for test in ["Seq_Write", "RMW", "Rand_Write", "Seq_Read", "Rand_Read"] {
                assert_eq!(done.out.matches(test).count(), 3, "{flags}: {}", done.out);
            }
            assert!(empty(dir.path()), "{flags}");
        }
    }
}

#[test]
fn files_are_kept_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = Program::new(MPTIO, "-f 1M -b 64K -t 1 -K -k 1 -k 2 -k 3 -k 4");
    assert_eq!(first.on("-d", dir.path()).run().code, Some(0));
    let file = dir.path().join("mptio_global");
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    let again = |flags| Program::new(MPTIO, flags).on("-d", dir.path()).run();
    let bigger = again("-f 2M -b 64K -t 1 -k 0");
    assert_eq!(bigger.code, Some(2), "{}", bigger.err);
    assert!(file.exists(), "what a refused run did not make stays");
    assert_eq!(again("-f 1M -b 64K -t 1 -k 0").code, Some(0));
    assert!(empty(dir.path()));
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, code, says) in [
        ("-f 64Q -b 4K -t 1", 2, "is not a size"),
        ("-G -P -b 4K -t 1", 2, "exclude each other"),
        ("-b 4K -t 1 -f 8000000G", 1, "MB free"),
        ("-b 4K -t 1 -R /dev/null", 2, "not a block device"),
    ] {
        let done = Program::new(MPTIO, flags).on("-d", dir.path()).run();
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
        assert_eq!(done.err.matches(says).count(), 1, "said once");
        assert_eq!(done.out, "");
        assert!(empty(dir.path()));
    }
}

#[test]
fn more_processes_of_mpi_than_are_known_of_are_not_run_side_by_side() {
    if cfg!(feature = "mpi") {
        return;
    }
    let done = Program::new(MPTIO, "-b 4K -t 1")
        .env("OMPI_COMM_WORLD_SIZE", "4")
        .env("OMPI_COMM_WORLD_RANK", "0")
        .run();
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("--features mpi"), "{}", done.err);
}

/// Runs until it is disturbed: random reads for hours.
const LONG: &str = "--np 3 -f 1M -b 4K -t 1 -k 1 -k 2 -k 3 -a 100000000000";

#[test]
fn a_process_that_dies_ends_the_run_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let running = Program::new(MPTIO, LONG).on("-d", dir.path()).start();
    let children = running.children(3);
    running.wait_for(&dir.path().join("mptio_global"));
    running.kill(children[2], "KILL");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("process 2 was killed by signal 9"),
        "{}",
        done.err
    );
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}

#[test]
fn a_run_that_is_ended_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let running = Program::new(MPTIO, LONG).on("-d", dir.path()).start();
    running.wait_for(&dir.path().join("mptio_global"));
    running.kill(running.id(), "TERM");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}

#[test]
fn a_directory_that_vanishes_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let flags = "--np 2 -f 1M -b 4K -t 1 -a 200000";
    let running = Program::new(MPTIO, flags).on("-d", &work).start();
    running.wait_for(&work.join("mptio_global"));
    std::fs::remove_dir_all(&work).unwrap();
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("No such file"), "{}", done.err);
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}
