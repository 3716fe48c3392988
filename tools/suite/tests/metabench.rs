//! The program `metabench` as a person starts it.

mod program;

use program::{Program, empty};

const METABENCH: &str = env!("CARGO_BIN_EXE_metabench");

#[test]
fn all_tests_run_and_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    for (processes, taking_part) in [("--np 1", 1), ("--np 3", 2), ("--np 3 -0", 3)] {
        let flags = format!("{processes} -CSUA -c 61 -f 20 -b 3K -k --check");
        let done = Program::new(METABENCH, &flags).on("-w", dir.path()).run();
        assert_eq!(done.code, Some(0), "{flags}: {}", done.err);
        let rates = |name: &str| -> Vec<u64> {
            let line = done.out.lines().find(|line| line.starts_with(name));
            let line = line.unwrap_or_else(|| panic!("{name}: {}", done.out));
            line.split_whitespace()
                .skip(1)
                .flat_map(str::parse)
                .collect()
        };
        let operations = 61 / taking_part * taking_part;
        // Of the lines that begin so, the first is the batches' title for Create-A only.
        for name in [
            "Create-B", "Create-C", "Stat-A", "Stat-B", "Utime-A", "Utime-B", "Append-A",
            "Append-B",
        ] {
            assert_eq!(
                rates(name)[..2],
                [taking_part, operations],
                "{name}: {}",
                done.out
            );
        }
        for upto in [20, 40, 60, 61] {
            assert!(done.out.contains(&format!("\n{upto:>14} ")), "{}", done.out);
        }
        assert!(empty(dir.path()), "{flags}");
    }
}

#[test]
fn what_was_made_stays_unless_it_shall_be_cleaned_up() {
    let dir = tempfile::tempdir().unwrap();
    let done = Program::new(METABENCH, "-C -c 5")
        .on("-w", dir.path())
        .run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!empty(dir.path()));
}

#[test]
fn the_tar_file_of_the_sources_shape_is_unpacked_by_each() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let tars = dir.path().join("tars");
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&tars).unwrap();
    let done = Program::new(METABENCH, "-T --np 3 -k --check")
        .on("-w", &work)
        .on("--tar-dir", &tars)
        .run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let twice = format!("{} files and {} directories, 151.6 MB", 2 * 9_188, 2 * 459);
    assert!(done.out.contains(&twice), "{}", done.out);
    assert!(empty(&work) && empty(&tars));
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, code, says) in [
        ("-c 5", 2, "nothing to run"),
        ("-A -b 64Q", 2, "is not a size"),
        ("-C --np 9 -c 5", 2, "less than a file for each"),
        ("-A -c 1000000 -b 1G", 1, "MB free"),
        ("-T --tar /nowhere.tar", 1, "cannot open the tar file"),
    ] {
        let done = Program::new(METABENCH, flags).on("-w", dir.path()).run();
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
        assert_eq!(done.out, "");
        assert!(empty(dir.path()), "{flags}");
    }
}

#[test]
fn a_process_that_dies_ends_the_run_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "-C -c 100000000 --np 3";
    let running = Program::new(METABENCH, flags).on("-w", dir.path()).start();
    let children = running.children(3);
    std::thread::sleep(std::time::Duration::from_millis(50));
    running.kill(children[1], "KILL");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}
