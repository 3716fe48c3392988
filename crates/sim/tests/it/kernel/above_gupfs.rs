//! Programs of two hosts above the model of the kernel, the mount and the client of each: each sees at once what the other has changed.

use super::random::{Numbers, compare_cluster};
use gupfs_fuse::{Errno, FileSystem, Result};
use gupfs_sim::cluster::with_two_kernels;
use gupfs_sim::kernel::Directory;
use libc::{O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TMPFILE};
use std::cell::{Cell, RefCell};
use std::time::Duration;

#[test]
fn kernels_above_the_mounts_of_two_clients_agree() {
    for seed in 0..4 {
        with_two_kernels(seed, async |kernels| {
            let roots = [kernels[0].root(), kernels[1].root()];
            use_files([&roots[0], &roots[1]]).await.unwrap();
            for kernel in kernels {
                kernel.shrink().await;
                assert_eq!(kernel.dentries(), 0, "a file or directory is still in use");
            }
        });
    }
}

#[test]
fn two_kernels_above_gupfs_give_the_results_of_two_above_one_tree() {
    for seed in 0..40 {
        with_two_kernels(seed, async |kernels| compare_cluster(seed, kernels).await);
    }
}

#[test]
fn the_size_of_a_growing_file_never_shrinks_in_what_programs_of_two_hosts_see() {
    for seed in 0..40 {
        with_two_kernels(seed, async |kernels| {
            let roots = [kernels[0].root(), kernels[1].root()];
            // Inline data, and objects, which only a write lease allows to change.
            let length = [0, 100_000][seed as usize % 2];
            grow_and_look(seed, length, [&roots[0], &roots[1]]).await;
        });
    }
}

/// A file that changes of either host make longer, one after the other, while programs of both look at it. What anybody has seen, or a
/// change has returned, everybody who looks later must see, too.
async fn grow_and_look<F: FileSystem>(seed: u64, length: u64, roots: [&Directory<F>; 2]) {
    let file = roots[0].open(b"file", O_CREAT | O_RDWR, 0o666).await;
    let file = file.unwrap();
    file.write(0, &vec![1; length as usize]).await.unwrap();
    file.close().await.unwrap();
    let numbers = RefCell::new(Numbers::new(seed));
    let below = |end| numbers.borrow_mut().below(end);
    let (seen, ended) = (Cell::new(0), Cell::new(false));
    let pause = || tokio::time::sleep(Duration::from_micros(below(1_500) as u64));
    let growing = async {
        for size in length + 1..=length + 80 {
            let root = roots[below(2)];
            match below(3) {
                0 => root.truncate(b"file", size).await.unwrap(),
                kind => {
                    let file = root.open(b"file", O_RDWR | O_APPEND, 0).await.unwrap();
                    file.append(b"x").await.unwrap();
                    if kind == 1 {
                        pause().await;
                    }
                    file.close().await.unwrap();
                }
            }
            seen.set(seen.get().max(size));
            if below(4) == 0 {
                pause().await;
            }
        }
        ended.set(true);
    };
    let looking = async |host: usize| {
        // The kernel looks a name up for each call, so a path alone would always bring new attributes.
        let held = roots[host].open(b"file", O_RDONLY, 0).await.unwrap();
        let mut looks = 0;
        while !ended.get() {
            let before = seen.get();
            let attr = match below(4) {
                0 => roots[host].stat(b"file").await,
                _ => held.stat().await,
            };
            let size = attr.unwrap().size;
            assert!(
                size >= before,
                "seed {seed}, host {host}: {size} after {before}"
            );
            seen.set(seen.get().max(size));
            looks += 1;
            match below(3) {
                0 => pause().await,
                _ => tokio::task::yield_now().await,
            }
        }
        held.close().await.unwrap();
        looks
    };
    let ((), one, other, third, fourth) =
        tokio::join!(growing, looking(0), looking(1), looking(0), looking(1));
    assert!(one + other + third + fourth > 100, "seed {seed}");
}

async fn use_files<F: FileSystem>([one, other]: [&Directory<F>; 2]) -> Result<()> {
    one.mkdir(b"d", 0o755).await?;
    let file = one
        .open(b"d/file", O_CREAT | O_EXCL | O_RDWR, 0o644)
        .await?;
    file.write(0, b"one").await?;
    let taken = other
        .open(b"d/file", O_CREAT | O_EXCL | O_RDWR, 0o644)
        .await;
    assert_eq!(taken.err(), Some(Errno::EEXIST));
    assert_eq!(other.stat(b"d/file").await?.size, 3);
    assert_eq!(read(other, b"d/file").await?, b"one");

    let appending = other.open(b"d/file", O_RDWR | O_APPEND, 0).await?;
    // The offset of an append is the size that the kernel has cached; the server does not use it.
    file.write(3, b", two").await?;
    appending.append(b", three").await?;
    appending.close().await?;
    assert_eq!(file.read(0, 100).await?, b"one, two, three");
    assert_eq!(file.stat().await?.size, 15);

    let unnamed = other.open(b"d", O_TMPFILE | O_RDWR, 0o600).await?;
    unnamed.write(0, b"bytes").await?;
    assert_eq!(unnamed.read(0, 100).await?, b"bytes");
    assert_eq!(unnamed.stat().await?.nlink, 0);
    unnamed.close().await?;

    let inside = other.enter(b"d").await?;
    one.rename(b"d", b"e").await?;
    assert_eq!(inside.stat(b"file").await?.size, 15);
    assert_eq!(other.stat(b"d").await.err(), Some(Errno::ENOENT));
    assert_eq!(read(other, b"e/file").await?, b"one, two, three");
    assert_eq!(inside.path()?, b"/e");

    other.chmod(b"e/file", 0o600).await?;
    other.truncate(b"e/file", 3).await?;
    let attr = file.stat().await?;
    assert_eq!((attr.size, attr.mode & 0o777), (3, 0o600));

    other.link(b"e/file", b"e/link").await?;
    other.unlink(b"e/file").await?;
    let names = one.list(b"e").await?.into_iter();
    let names: Vec<Vec<u8>> = names.map(|listed| listed.name).collect();
    assert_eq!(names, [b"link"]);
    assert_eq!(file.stat().await?.nlink, 1);
    other.unlink(b"e/link").await?;
    assert_eq!(file.read(0, 100).await?, b"one");
    file.close().await?;
    drop(inside);
    one.rmdir(b"e").await?;
    assert_eq!(other.list(b".").await?, []);
    Ok(())
}

async fn read<F: FileSystem>(dir: &Directory<F>, path: &[u8]) -> Result<Vec<u8>> {
    let file = dir.open(path, O_RDONLY, 0).await?;
    let bytes = file.read(0, 100).await;
    file.close().await?;
    bytes
}
