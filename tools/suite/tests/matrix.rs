//! `gupfs-suite matrix` as a person starts it.

mod program;

use program::{Program, refuses};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

#[test]
fn all_tests_run_with_their_data_checked() {
    let dir = tempfile::tempdir().unwrap();
    // Two sizes with two records that fit, and one with one: five pairs.
    for (flags, tests, workers) in [
        ("--seed 3", 13, 1),
        ("-n 3 --np 2 --sync", 13, 3),
        ("-I -n 2", 9, 2),
        ("-T reread,fread,record_rewrite", 4, 1),
    ] {
        let flags = format!("matrix -s 64K,300K,8K -b 8K,40K --check {flags}");
        let (done, report) = Program::new(SUITE, &flags).report(dir.path());
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
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let wrong = [
        ("-s 4K,4K", 2, "once"),
        ("-s 4K -b 8K", 2, "larger than every file"),
        ("-I -T fread", 2, "goes around buffers"),
        ("-I -b 1000", 2, "multiple of 512"),
        ("-s 4G -b 2G", 2, "at most 1G"),
        ("-T jump", 2, "possible values"),
        ("-s 8000000G", 1, "MB free"),
    ];
    refuses(SUITE, "matrix", &wrong);
}
