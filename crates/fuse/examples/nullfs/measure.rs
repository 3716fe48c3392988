//! The workload: creates, small writes, large writes and reads, each for about a second.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use rustix::time::{ClockId, clock_gettime};

const RUNS: usize = 5;
const PAGE: usize = 4096;

pub fn all(directory: &Path) -> io::Result<()> {
    for threads in [1, 2] {
        rate("create + close", threads, 5_000, |thread, round| {
            File::create(directory.join(format!("{thread} {round}"))).map(drop)
        })?;
        rate(
            "stat, not cached by name",
            threads,
            5_000,
            |thread, round| {
                fs::metadata(directory.join(format!("absent {thread} {round}")))
                    .map(drop)
                    .or_else(absent)
            },
        )?;
        rate("unlink", threads, 5_000, |thread, round| {
            fs::remove_file(directory.join(format!("{thread} {round}"))).or_else(absent)
        })?;
        for (name, size, rounds) in [("4 KiB", 4096, 20_000), ("1 MiB", 1 << 20, 1_000)] {
            let path = directory.join("data");
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?;
            file.set_len(16 << 20)?;
            let offset = move |round: usize| (round % 8 * size) as u64;
            rate(&format!("write {name}"), threads, rounds, |_, round| {
                with_buffer(size, |buffer| file.write_all_at(buffer, offset(round)))
            })?;
            rate(&format!("read {name}"), threads, rounds, |_, round| {
                with_buffer(size, |buffer| file.read_exact_at(buffer, offset(round)))
            })?;
        }
    }
    Ok(())
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}

/// Runs `work` with a page-aligned buffer of this thread: an unaligned 1 MiB buffer needs two requests.
fn with_buffer(size: usize, work: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<()> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(size + PAGE, 1);
        let start = buffer.as_ptr().align_offset(PAGE);
        work(&mut buffer[start..start + size])
    })
}

/// Prints the median rate of several runs.
fn rate(
    label: &str,
    threads: usize,
    rounds: usize,
    work: impl Fn(usize, usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let mut rates = Vec::new();
    for run in 0..RUNS {
        let start = clock_gettime(ClockId::Monotonic);
        thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn(move || {
                        (0..rounds).try_for_each(|round| work(thread, run * rounds + round))
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| {
                worker
                    .join()
                    .map_err(|_| io::Error::other("a worker panicked"))?
            })
        })?;
        let took = clock_gettime(ClockId::Monotonic) - start;
        let seconds = took.tv_sec as f64 + took.tv_nsec as f64 / 1e9;
        rates.push((threads * rounds) as f64 / seconds);
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{label}, {threads} threads: {:.1} k/s (of {RUNS}: {:.1} to {:.1})",
        rates[RUNS / 2] / 1e3,
        rates[0] / 1e3,
        rates[RUNS - 1] / 1e3
    );
    Ok(())
}
