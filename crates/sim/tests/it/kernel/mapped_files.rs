//! Files that programs of two hosts map, send, read and write, above the model of the kernel, the mount and the client of each.

use super::random::Numbers;
use gupfs_fuse::{Errno, FileSystem};
use gupfs_sim::cluster::with_two_kernels;
use gupfs_sim::kernel::{Directory, File};
use libc::{O_CREAT, O_RDONLY, O_RDWR, O_TRUNC};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Inline data, and objects.
const LENGTHS: [usize; 2] = [3_000, 100_000];

/// How often programs change something in one run.
const CHANGES: u8 = 40;

#[test]
fn a_byte_never_returns_to_an_older_value_in_mappings_and_transfers_of_two_hosts() {
    for seed in 0..40 {
        with_two_kernels(seed, async |kernels| {
            let roots = [kernels[0].root(), kernels[1].root()];
            let length = LENGTHS[seed as usize % 2];
            change_and_look(seed, length, [&roots[0], &roots[1]]).await;
        });
    }
}

#[test]
fn two_hosts_store_into_one_page_and_neither_undoes_what_the_other_has_stored() {
    for seed in 0..40 {
        with_two_kernels(seed, async |kernels| {
            let roots = [kernels[0].root(), kernels[1].root()];
            let length = LENGTHS[seed as usize % 2];
            store_side_by_side(seed, length, [&roots[0], &roots[1]], 2).await;
        });
    }
}

#[test]
fn programs_that_store_and_write_side_by_side_on_each_host_undo_nothing() {
    for seed in 0..30 {
        with_two_kernels(seed, async |kernels| {
            let roots = [kernels[0].root(), kernels[1].root()];
            store_side_by_side(seed, LENGTHS[1], [&roots[0], &roots[1]], 4).await;
        });
    }
}

#[test]
fn an_open_that_truncates_leaves_nothing_of_what_was_stored_before() {
    for seed in 0..8 {
        with_two_kernels(seed, async |kernels| {
            let roots = [kernels[0].root(), kernels[1].root()];
            make(&roots[0], LENGTHS[seed as usize % 2]).await;
            let mapped = roots[0].open(b"file", O_RDWR, 0).await.unwrap();
            mapped.store(1_000, 7).await.unwrap();
            // Through the kernel that has the dirty page, and through the other.
            let truncating = &roots[seed as usize / 2 % 2];
            let flags = [O_RDWR | O_TRUNC, O_RDWR | O_TRUNC | O_CREAT][seed as usize / 4];
            let file = truncating.open(b"file", flags, 0o666).await.unwrap();
            for root in &roots {
                let size = root.stat(b"file").await.unwrap().size;
                assert_eq!(size, 0, "seed {seed}");
            }
            file.close().await.unwrap();
            mapped.close().await.unwrap();
            assert_eq!(roots[1].stat(b"file").await.unwrap().size, 0, "seed {seed}");
        });
    }
}

struct Random(RefCell<Numbers>);

impl Random {
    fn new(seed: u64) -> Random {
        Random(RefCell::new(Numbers::new(seed)))
    }

    fn below(&self, end: usize) -> usize {
        self.0.borrow_mut().below(end)
    }

    async fn pause(&self) {
        let micros = self.below(1_500) as u64;
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

async fn make<F: FileSystem>(root: &Directory<F>, length: usize) {
    let file = root.open(b"file", O_CREAT | O_RDWR, 0o666).await.unwrap();
    file.write(0, &vec![0; length]).await.unwrap();
    file.close().await.unwrap();
}

async fn byte<F: FileSystem>(file: &File<F>, at: u64) -> u8 {
    file.read(at, 1).await.unwrap()[0]
}

/// sendfile(2) waits for a page that is locked when it reads the pipe.
async fn sent_byte<F: FileSystem>(file: &File<F>, at: u64) -> u8 {
    loop {
        match file.send(at, 1).await {
            Err(Errno::EAGAIN) => tokio::task::yield_now().await,
            sent => return sent.unwrap()[0],
        }
    }
}

/// One program writes rising values of one byte, with write(2) or through a mapping, now on this host, now on that. Others look at it. What
/// anybody has seen, or a change has returned, everybody who looks later must see, too; read(2) of the other host sees a store once
/// it is synced.
async fn change_and_look<F: FileSystem>(seed: u64, length: usize, roots: [&Directory<F>; 2]) {
    let at = length as u64 / 2;
    make(roots[0], length).await;
    let random = Random::new(seed);
    // Seen by anybody, and written to the servers.
    let (seen, written, ended) = (Cell::new(0), Cell::new(0), Cell::new(false));
    let changing = async {
        for value in 1..=CHANGES {
            let file = roots[random.below(2)].open(b"file", O_RDWR, 0).await;
            let file = file.unwrap();
            match random.below(3) {
                0 => file.write(at, &[value]).await.unwrap(),
                kind => {
                    file.store(at, value).await.unwrap();
                    seen.set(value);
                    if kind == 1 {
                        random.pause().await;
                    }
                    file.msync().await.unwrap();
                }
            };
            seen.set(value);
            written.set(value);
            if random.below(2) == 0 {
                random.pause().await;
            }
            file.close().await.unwrap();
            random.pause().await;
        }
        ended.set(true);
    };
    let looking = async |host: usize| {
        let held = roots[host].open(b"file", O_RDONLY, 0).await.unwrap();
        let mut looks = 0;
        while !ended.get() {
            let (in_pages, in_servers) = (seen.get(), written.get());
            let kind = random.below(4);
            let (value, before) = match kind {
                0 => (byte(&held, at).await, in_servers),
                1 => (sent_byte(&held, at).await, in_pages),
                _ => (held.load(at).await.unwrap(), in_pages),
            };
            assert!(
                value >= before,
                "seed {seed}, host {host}, look {kind}: {value} after {before}"
            );
            seen.set(seen.get().max(value));
            looks += 1;
            match random.below(3) {
                0 => random.pause().await,
                _ => tokio::task::yield_now().await,
            }
        }
        held.close().await.unwrap();
        looks
    };
    // Boxed: the stack of a test holds few futures that contain the whole file system.
    let looking = |host| Box::pin(looking(host));
    let ((), one, other, third, fourth) = tokio::join!(
        Box::pin(changing),
        looking(0),
        looking(1),
        looking(0),
        looking(1)
    );
    assert!(one + other + third + fourth > 100, "seed {seed}");
}

/// Each of so many programs on each host counts in a byte of its own of one page, through a mapping or with write(2), and finds there what it
/// has left.
async fn store_side_by_side<F: FileSystem>(
    seed: u64,
    length: usize,
    roots: [&Directory<F>; 2],
    on_each: u64,
) {
    make(roots[0], length).await;
    let random = Random::new(seed);
    let counting = async |program: u64| {
        let host = (program % 2) as usize;
        let at = 100 + program;
        let file = roots[host].open(b"file", O_RDWR, 0).await.unwrap();
        for value in 1..=CHANGES {
            let before = match random.below(2) {
                0 => file.load(at).await.unwrap(),
                _ => byte(&file, at).await,
            };
            assert_eq!(before, value - 1, "seed {seed}, program {program}");
            match random.below(3) {
                0 => file.write(at, &[value]).await.unwrap(),
                _ => file.store(at, value).await.unwrap(),
            }
            if random.below(3) == 0 {
                random.pause().await;
            }
        }
        file.close().await.unwrap();
    };
    let counting = |program| Box::pin(counting(program));
    let mut running: Vec<_> = (0..2 * on_each).map(counting).collect();
    poll_fn(|cx| {
        running.retain_mut(|program| program.as_mut().poll(cx).is_pending());
        match running.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    for root in roots {
        let file = root.open(b"file", O_RDONLY, 0).await.unwrap();
        for at in 100..100 + 2 * on_each {
            assert_eq!(byte(&file, at).await, CHANGES, "seed {seed}");
            assert_eq!(file.load(at).await, Ok(CHANGES), "seed {seed}");
        }
        file.close().await.unwrap();
    }
}
