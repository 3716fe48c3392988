//! `gupfs-suite bonnie` as a person starts it.

mod program;

use program::{Program, refuses};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

#[test]
fn the_six_tests_run_with_their_data_checked() {
    let dir = tempfile::tempdir().unwrap();
    for flags in ["", "-n 3 --np 2 --sync", "-b 1001 --np 1"] {
        let flags = format!("bonnie -f 500K -s 20 --check {flags}");
        let (done, report) = Program::new(SUITE, &flags).report(dir.path());
        let seekers = if flags.contains("-n 3") { 3 } else { 4 };
        let (chunk, chunks) = match flags.contains("1001") {
            true => (1001, 511),
            false => (16 << 10, 31),
        };
        let names = [
            "Putc",
            "Rewrite",
            "Block_write",
            "Getc",
            "Block_read",
            "Seeks",
        ];
        for (index, name) in names.into_iter().enumerate() {
            let figure = &report["figures"][index];
            assert_eq!(figure["name"], name);
            assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            let parts = report["tests"][index]["parts"].as_array().unwrap();
            let (workers, operations) = if name == "Seeks" {
                (seekers, 20)
            } else {
                (1, chunks)
            };
            assert_eq!(parts.len(), workers, "{name}");
            assert_eq!(
                figure["unit"],
                if name == "Seeks" { "op/s" } else { "MB/s" }
            );
            for part in parts {
                assert_eq!(part["operations"], operations, "{name}");
                assert_eq!(part["bytes"], operations * chunk, "{name}");
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
        ("-f 1K", 2, "more than the file"),
        ("-b 7", 2, "8 or more"),
        ("-s 0", 2, "0 is not in"),
        ("-f 8000000G", 1, "MB free"),
    ];
    refuses(SUITE, "bonnie", &wrong);
}
