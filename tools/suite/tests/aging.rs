//! `gupfs-suite aging` as a person starts it.

mod program;

use program::{Program, refuses};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

#[test]
fn each_level_is_filled_churned_and_measured() {
    for np in ["", "--np 1"] {
        let dir = tempfile::tempdir().unwrap();
        let flags = "aging --room 8M -l 50,90 --least 1K --most 64K -n 3 -f 256K -b 64K -r 2 --churn 0.5 --check";
        let (done, report) = Program::new(SUITE, &format!("{flags} {np}")).report(dir.path());
        let names = report["figures"].as_array().unwrap().iter().map(|figure| {
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            let [name, filled] = [&figure["name"], &figure["at"]["filled"]];
            format!("{} {}%", name.as_str().unwrap(), filled.as_str().unwrap())
        });
        let names: Vec<_> = names.collect();
        let wanted = [
            "Write 0%",
            "Read 0%",
            "Fill 50%",
            "Churn 50%",
            "Write 50%",
            "Read 50%",
            "Fill 90%",
            "Churn 90%",
            "Write 90%",
            "Read 90%",
        ];
        assert_eq!(names, wanted);
        // 8 MB in three, half of it, by each of three.
        let filled = |level: usize| -> u64 {
            let parts = report["levels"][level]["fill"]["parts"].as_array().unwrap();
            parts
                .iter()
                .map(|part| part["bytes"].as_u64().unwrap())
                .sum()
        };
        assert_eq!(filled(1), 3 * ((8 << 20) / 3 * 50 / 100));
        assert_eq!(filled(1) + filled(2), 3 * ((8 << 20) / 3 * 90 / 100));
        assert!(done.out.contains("100.0%"), "{}", done.out);
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let wrong = [
        ("-l 50,25", 2, "-l must grow"),
        ("-l 101", 2, "101"),
        ("--room 0%", 2, "1% to 100%"),
        ("--room 64Q", 2, "not a size"),
        ("--room 1M", 2, "too little for 4 workers"),
        ("--churn=-1", 2, "0 or more"),
        ("--churn NaN", 2, "0 or more"),
        ("--least 2M --most 1M", 2, "must not shrink"),
        ("-b 2G", 2, "more than the file"),
        ("--room 8000000G", 1, "MB free"),
    ];
    refuses(SUITE, "aging", &wrong);
}
