//! `gupfs-suite matrix` as a person starts it.

mod program;

use program::{Program, empty};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

#[test]
fn all_tests_run_with_their_data_checked() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let json = dir.path().join("json");
    // Two sizes with two records that fit, and one with one: five pairs.
    for (flags, tests, workers) in [
        ("--seed 3", 13, 1),
        ("-n 3 --np 2 --sync", 13, 3),
        ("-I -n 2", 9, 2),
        ("-T reread,fread,record_rewrite", 4, 1),
    ] {
        let flags = format!("matrix -s 64K,300K,8K -b 8K,40K --check {flags}");
        let done = Program::new(SUITE, &flags)
            .on("-d", &work)
            .on("--json", &json)
            .run();
        assert_eq!(done.code, Some(0), "{flags}: {}", done.err);
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let figures = report["figures"].as_array().unwrap();
        assert_eq!(figures.len(), 5 * tests, "{flags}: {}", done.out);
        for figure in figures {
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            assert_eq!(
                figure["each"].as_array().unwrap().len(),
                workers,
                "{figure}"
            );
            let [name, size, record] = [
                &figure["name"],
                &figure["at"]["size"],
                &figure["at"]["record"],
            ]
            .map(|text| text.as_str().unwrap());
            let name = format!("{name} {size}/{record}");
            assert_eq!(
                done.out.matches(&format!("\n{name} ")).count(),
                1,
                "{name}: {}",
                done.out
            );
        }
        assert!(empty(&work), "{flags}");
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, code, says) in [
        ("-s 4K,4K", 2, "once"),
        ("-s 4K -b 8K", 2, "larger than every file"),
        ("-I -T fread", 2, "goes around buffers"),
        ("-I -b 1000", 2, "multiple of 512"),
        ("-s 4G -b 2G", 2, "at most 1G"),
        ("-T jump", 2, "possible values"),
        ("-s 8000000G", 1, "MB free"),
    ] {
        let done = Program::new(SUITE, &format!("matrix {flags}"))
            .on("-d", dir.path())
            .run();
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
        assert_eq!(done.out, "");
        assert!(empty(dir.path()));
    }
}
