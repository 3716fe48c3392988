//! `gupfs-suite apps` as a person starts it.

mod program;

use program::{Program, refuses};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

#[test]
fn every_pattern_runs_with_its_data_checked() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, workers, phases) in [
        ("-n 4 --sync", 4, 20),
        ("-n 3 --np 2 --seed 5 -r 1", 3, 13),
        ("-n 1 -p btio,flash", 1, 5),
    ] {
        let flags = format!("apps -f 300K --check {flags}");
        let (done, report) = Program::new(SUITE, &flags).report(dir.path());
        let figures = report["figures"].as_array().unwrap();
        assert_eq!(figures.len(), phases, "{flags}: {}", done.out);
        let names: std::collections::BTreeSet<_> = figures
            .iter()
            .map(|figure| figure["name"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), phases, "each name once: {names:?}");
        for figure in figures {
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            assert_eq!(
                figure["each"].as_array().unwrap().len(),
                workers,
                "{figure}"
            );
        }
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let wrong = [
        ("-p btio -n 3", 2, "-n 3 is none"),
        ("-p chess", 2, "possible values"),
        ("-r 0", 2, "0 is not in"),
        ("-f 1000000G", 2, "more than any"),
        ("-p checkpoint -f 80000G", 1, "MB free"),
    ];
    refuses(SUITE, "apps", &wrong);
}
