//! `gupfs-suite streams` as a person starts it.

mod program;

use program::{Program, empty};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

fn figures(path: &std::path::Path) -> Vec<(String, f64, usize)> {
    let text = std::fs::read(path).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let figures = json["figures"].as_array().unwrap().iter();
    figures
        .map(|figure| {
            let each = figure["each"].as_array().map_or(0, Vec::len);
            let [name, record, np] = [
                &figure["name"],
                &figure["at"]["record"],
                &figure["at"]["np"],
            ]
            .map(|text| text.as_str().unwrap());
            (
                format!("{name} {record} x{np}"),
                figure["value"].as_f64().unwrap(),
                each,
            )
        })
        .collect()
}

#[test]
fn every_layout_runs_with_its_data_checked() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let json = dir.path().join("json");
    for (layout, np, steps) in [
        ("each", "", 16),
        ("parts -I --sync", "--np 2", 16),
        ("interleaved --cold", "--np 1", 16),
        ("all -o read", "", 8),
    ] {
        let flags = format!("streams -n 1,3 -b 4K,12K -f 100K --check {np} -l {layout}");
        let done = Program::new(SUITE, &flags)
            .on("-d", &work)
            .on("--json", &json)
            .run();
        assert_eq!(done.code, Some(0), "{flags}: {}", done.err);
        let figures = figures(&json);
        assert_eq!(figures.len(), steps, "{flags}");
        for (name, value, each) in figures {
            assert!(value > 0.0, "{name}");
            assert_eq!(each, if name.ends_with("x3") { 3 } else { 1 }, "{name}");
            assert_eq!(done.out.matches(&name).count(), 2, "{name}: {}", done.out);
        }
        assert!(empty(&work), "{flags}");
    }
}

#[test]
fn interleave_is_a_program_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("json");
    let done = Program::new(SUITE, "interleave -n 1,4 -b 1000 -f 10K --check -r 1")
        .on("-d", dir.path())
        .on("--json", &json)
        .run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let names: Vec<String> = figures(&json).into_iter().map(|(name, ..)| name).collect();
    let expected = [
        "Interleaved_write_1st 1000 x1",
        "Interleaved_read_1st 1000 x1",
        "Interleaved_write_1st 1000 x4",
        "Interleaved_read_1st 1000 x4",
    ];
    assert_eq!(names, expected);
    let text = std::fs::read_to_string(&json).unwrap();
    assert!(text.contains("\"program\": \"interleave\""), "{text}");
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, code, says) in [
        ("-b 64Q", 2, "is not a size"),
        ("-l all", 2, "give -o read"),
        ("-f 8000000G -n 4", 1, "MB free"),
        ("--np 2000", 2, "1 to 1024"),
    ] {
        let done = Program::new(SUITE, &format!("streams {flags}"))
            .on("-d", dir.path())
            .run();
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert_eq!(done.err.matches(says).count(), 1, "{flags}: {}", done.err);
        assert_eq!(done.out, "");
        assert!(empty(dir.path()));
    }
    let gone = dir.path().join("gone");
    let done = Program::new(SUITE, "streams").on("-d", &gone).run();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("cannot use the directory"),
        "{}",
        done.err
    );
}

#[test]
fn a_process_that_dies_ends_the_run_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let running = Program::new(SUITE, "streams -n 3 -f 64M -b 512 -r 9")
        .on("-d", dir.path())
        .start();
    let children = running.children(3);
    running.wait_until(|| !empty(dir.path()));
    running.kill(children[1], "KILL");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("process 1 was killed"), "{}", done.err);
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}

#[test]
fn a_starter_such_as_mpirun_decides_how_many_processes_there_are() {
    if cfg!(feature = "mpi") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let started = |flags: &str, processes: &str| {
        Program::new(SUITE, &format!("streams -n 3 -f 64K -b 4K {flags}"))
            .on("-d", dir.path())
            .env("OMPI_COMM_WORLD_SIZE", processes)
            .env("OMPI_COMM_WORLD_RANK", "0")
            .run()
    };
    let alone = started("", "1");
    assert_eq!(alone.code, Some(0), "{}", alone.err);
    let several = started("", "2");
    assert!(several.err.contains("--features mpi"), "{}", several.err);
    let both = started("--np 3", "1");
    assert!(both.err.contains("use one of them"), "{}", both.err);
}
