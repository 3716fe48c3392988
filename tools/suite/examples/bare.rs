//! What the suite is compared with: the same system calls in a loop that does nothing else.
//!
//! `bare read FILE RECSZ PART PARTS` reads one part of a file of as many parts; `bare create DIR [PREFIX] FILES` creates files; `bare stat
//! DIR PREFIX FILES` stats PREFIX0, PREFIX1, … there, whose names are made before; `bare mdtest DIR PREFIX FILES` stats
//! DIR/file.PREFIX0, … with what mdtest does for each. Prints the seconds. `bare lap COUNT` prints the nanoseconds of a latency sample,
//! and those of the look at the clock in it. scripts/suite_overhead.sh and scripts/suite_beside_ior.sh start it.
//!
//! Unsafe: mdtest prints names with the C library, and so does what stands for it here.

#![allow(clippy::disallowed_methods)]

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom};
use std::time::Instant;

use gupfs_suite::latency::Laps;
use gupfs_suite::stop_flag::StopFlag;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let seconds = match words[..] {
        ["read", file, record, part, parts] => {
            read(file, number(record), number(part), number(parts))
        }
        ["create", dir, files] => create(dir, "f", number(files)),
        ["create", dir, prefix, files] => create(dir, prefix, number(files)),
        ["stat", dir, prefix, files] => stat(dir, prefix, number(files)),
        ["mdtest", dir, prefix, files] => stat_as_mdtest(dir, prefix, number(files)),
        ["lap", count] => return lap(number(count)),
        _ => panic!(
            "bare read FILE RECSZ PART PARTS | create DIR [PREFIX] FILES | stat DIR PREFIX FILES | mdtest DIR PREFIX FILES | lap COUNT"
        ),
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

fn create(dir: &str, prefix: &str, files: u64) -> f64 {
    std::env::set_current_dir(dir).unwrap();
    // Names are made before: the loop has nothing but its calls.
    let names = names(prefix, files);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let begun = Instant::now();
    for name in &names {
        drop(openat(CWD, name, flags, Mode::from(0o644)).unwrap());
    }
    begun.elapsed().as_secs_f64()
}

fn names(prefix: &str, files: u64) -> Vec<CString> {
    let name = |index| CString::new(format!("{prefix}{index}")).unwrap();
    (0..files).map(name).collect()
}

fn stat(dir: &str, prefix: &str, files: u64) -> f64 {
    std::env::set_current_dir(dir).unwrap();
    let names = names(prefix, files);
    let begun = Instant::now();
    for name in &names {
        statat(CWD, name, AtFlags::empty()).unwrap();
    }
    begun.elapsed().as_secs_f64()
}

/// As mdtest_stat of mdtest.c: clears two buffers of a path's greatest length, prints the file's name into one, the whole path into
/// the other, copies that back, calls stat, and looks at the clock before that.
fn stat_as_mdtest(dir: &str, prefix: &str, files: u64) -> f64 {
    const PATH_MAX: usize = 4096;
    let [dir, prefix] = [dir, prefix].map(|text| CString::new(text).unwrap());
    let (mut item, mut path) = ([0 as c_char; PATH_MAX], [0 as c_char; PATH_MAX]);
    let begun = Instant::now();
    for index in 0..files {
        black_box(&mut item).fill(0);
        black_box(&mut path).fill(0);
        // SAFETY: both buffers have room for a path of this program's arguments, which end with a zero.
        unsafe {
            libc::snprintf(
                item.as_mut_ptr(),
                PATH_MAX,
                c"file.%s%llu".as_ptr(),
                prefix.as_ptr(),
                index,
            );
            libc::snprintf(
                path.as_mut_ptr(),
                PATH_MAX,
                c"%s/%s".as_ptr(),
                dir.as_ptr(),
                item.as_ptr(),
            );
            libc::strcpy(item.as_mut_ptr(), path.as_ptr());
        }
        black_box(Instant::now());
        // SAFETY: it was just printed there.
        let whole = unsafe { CStr::from_ptr(item.as_ptr()) };
        statat(CWD, whole, AtFlags::empty()).unwrap();
    }
    begun.elapsed().as_secs_f64()
}

/// What a program of the suite does around each of its operations, and nothing between; and the clock by itself.
fn lap(count: u64) {
    let halt = StopFlag::default();
    let begun = Instant::now();
    let mut laps = Laps::start(&halt);
    for _ in 0..count {
        laps.lap().unwrap();
    }
    let sample = begun.elapsed().as_nanos() as f64 / count as f64;
    assert_eq!(black_box(laps.histogram).operations(), count);
    let begun = Instant::now();
    for _ in 0..count {
        black_box(Instant::now());
    }
    let clock = begun.elapsed().as_nanos() as f64 / count as f64;
    println!("{sample:.1} {clock:.1}");
}
