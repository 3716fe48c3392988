//! `gupfs-suite tiotest` as a person starts it.

mod program;

use program::{Program, refuses};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

#[test]
fn the_four_tests_run_in_each_way_with_their_data_checked() {
    let dir = tempfile::tempdir().unwrap();
    for way in ["", "-m", "-I", "--np 2 --sync", "-m --sync --seed 4"] {
        let flags = format!("tiotest -t 3 -f 101K -b 4K -r 20 --check {way}");
        let (done, report) = Program::new(SUITE, &flags).report(dir.path());
        let names = ["Write", "Random_write", "Read", "Random_read"];
        for (index, name) in names.into_iter().enumerate() {
            let figure = &report["figures"][index];
            assert_eq!(figure["name"], name);
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            assert_eq!(figure["each"].as_array().unwrap().len(), 3);
            let longest = &report["figures"][names.len() + index];
            assert_eq!(longest["name"], format!("{name}_longest"));
            assert_eq!(
                (&longest["unit"], &longest["better"]),
                (&"ms".into(), &"less".into())
            );
            assert!(longest["value"].as_f64().unwrap() > 0.0, "{longest}");
            let operations = if name.starts_with("Random") { 20 } else { 25 };
            for part in report["tests"][index]["parts"].as_array().unwrap() {
                assert_eq!(part["operations"], operations, "{name}");
                assert_eq!(part["bytes"], operations * 4096, "{name}");
            }
            assert_eq!(
                done.out.matches(&format!("\n{name} ")).count(),
                2,
                "{}",
                done.out
            );
        }
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let wrong = [
        ("-f 1K -b 4K", 2, "more than the file"),
        ("-I -b 1000", 2, "multiple of 512"),
        ("-I -m", 2, "cannot be used with"),
        ("-f 8000000G", 1, "MB free"),
    ];
    refuses(SUITE, "tiotest", &wrong);
}
