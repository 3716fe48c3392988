//! What the suite is compared with: the same system calls in a loop that does nothing else.
//!
//! `bare read FILE RECSZ PART PARTS` reads one part of a file of as many parts; `bare create DIR FILES` creates files. Prints the
//! seconds. scripts/suite_overhead.sh starts it and prints the ratios.

#![allow(clippy::disallowed_methods)]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use rustix::fs::{CWD, Mode, OFlags, openat};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let seconds = match words[..] {
        ["read", file, record, part, parts] => {
            read(file, number(record), number(part), number(parts))
        }
        ["create", dir, files] => create(dir, number(files)),
        _ => panic!("bare read FILE RECSZ PART PARTS | bare create DIR FILES"),
    };
    println!("{seconds}");
}

fn read(file: &str, record: u64, part: u64, parts: u64) -> f64 {
    let mut buffer = vec![1; record as usize];
    let begun = Instant::now();
    let mut file = File::open(file).unwrap();
    let bytes = file.metadata().unwrap().len() / parts;
    file.seek(SeekFrom::Start(part * bytes)).unwrap();
    for _ in 0..bytes / record {
        file.read_exact(&mut buffer).unwrap();
    }
    drop(file);
    begun.elapsed().as_secs_f64()
}

fn create(dir: &str, files: u64) -> f64 {
    std::env::set_current_dir(dir).unwrap();
    // Names are made before: the loop has nothing but its calls.
    let names: Vec<CString> = (0..files)
        .map(|index| {
            CString::new(std::ffi::OsStr::new(&format!("f{index:08}")).as_bytes()).unwrap()
        })
        .collect();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let begun = Instant::now();
    for name in &names {
        drop(openat(CWD, name, flags, Mode::from(0o644)).unwrap());
    }
    begun.elapsed().as_secs_f64()
}
