//! `gupfs-suite pileup` and `daq` as a person starts them.

mod program;

use program::{Program, empty, refuses};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

fn value(json: &serde_json::Value, name: &str) -> f64 {
    let figures = json["figures"].as_array().unwrap();
    let named = |figure: &&serde_json::Value| {
        let at = figure["at"]["readers"].as_str();
        let at = at.map_or(String::new(), |readers| format!(" x{readers}"));
        format!("{}{at}", figure["name"].as_str().unwrap()) == name
    };
    let figure = figures.iter().find(named);
    figure.unwrap_or_else(|| panic!("{name}: {json}"))["value"]
        .as_f64()
        .unwrap()
}

/// Runs a workload with its data checked: its JSON report.
fn ran(flags: &str) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let (done, report) = Program::new(SUITE, flags).report(dir.path());
    assert!(done.out.contains("OPERATIONS"), "{}", done.out);
    report
}

#[test]
fn pileup_climbs_its_ramp() {
    let report = ran("pileup --files 5 -f 200K -n 1,3 -t 0.2 --stay 3 --cold --check");
    for (rung, readers) in [(0, 1), (1, 3)] {
        assert!(value(&report, &format!("Pileup x{readers}")) > 0.0);
        let rung = &report["rungs"][rung];
        assert_eq!(rung["parts"].as_array().unwrap().len(), readers);
        for part in rung["parts"].as_array().unwrap() {
            let [bytes, reads] = ["bytes", "operations"].map(|name| part[name].as_u64().unwrap());
            assert!((50 << 10..=60 << 10).contains(&(bytes / reads)), "{part}");
            assert!(part["seconds"].as_f64().unwrap() >= 0.2, "{part}");
        }
    }
}

#[test]
fn what_comes_in_goes_out_at_the_rate_asked_for() {
    for (flags, np) in [
        ("-w 2 -r 2", ""),
        ("-w 2 -r 3 --np 2", ""),
        ("-w 3 -r 1", "--np 1"),
    ] {
        let report = ran(&format!(
            "daq {flags} {np} -f 100K -b 30K -t 2 --influx 8 --check"
        ));
        let (influx, outflux) = (value(&report, "Influx"), value(&report, "Outflux"));
        // The rate is never exceeded; a slow host may not reach it.
        assert!((0.8..8.2).contains(&influx), "{flags}: {influx}");
        // Readers are at most five files of each writer behind: 1.5 MB in 1.5 s. Their writers wait for readers that read nothing.
        assert!(
            influx - outflux < 1.5 && outflux < 9.5,
            "{flags}: {influx} {outflux}"
        );
    }
}

#[test]
fn writers_wait_for_readers() {
    let report = ran("daq -w 3 -r 1 -f 1M -t 1 --ahead 1");
    let (influx, outflux) = (value(&report, "Influx"), value(&report, "Outflux"));
    assert!(influx > 0.0 && outflux > 0.0);
    assert!(
        report["writers"][0]["waited"].as_f64().unwrap() > 0.0,
        "{report}"
    );
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let wrong = [
        ("pileup -n 4,2", 2, "must grow"),
        ("pileup --least 2M --most 1M", 2, "must not shrink"),
        ("pileup -f 1K", 2, "must not shrink"),
        ("pileup -t 0", 2, "above 0"),
        ("pileup -f 8000000G", 1, "MB free"),
        ("daq -t NaN", 2, "above 0"),
        ("daq --influx 0", 2, "above 0"),
        ("daq -b 2G", 2, "at most 1G"),
        ("daq -f 8000000G", 1, "MB free"),
    ];
    refuses(SUITE, "", &wrong);
}

#[test]
fn a_directory_that_vanishes_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let running = Program::new(SUITE, "daq -w 2 -r 2 -t 1000 -f 1M")
        .on("-d", &work)
        .start();
    running.wait_until(|| !empty(&work));
    // Writers go on making files meanwhile.
    while std::fs::remove_dir_all(&work).is_err() {}
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("No such file"), "{}", done.err);
    assert_eq!(done.out, "");
    assert!(empty(dir.path()));
}
