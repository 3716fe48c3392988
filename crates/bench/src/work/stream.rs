//! One process writes a file in records of 1 MiB and syncs it, then reads it back with cold caches.

use super::Bench;
use crate::place::{drop_caches, touch_memory};
use crate::report::{Line, Report};
use crate::serve::Serving;
use crate::timing::{Figures, seconds};
use anyhow::{Result, ensure};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const RECORD: usize = 1 << 20;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let local = bench.place.fresh("stream-local")?;
    let serving = Serving::gupfs(
        bench.gupfs,
        &bench.place.fresh("stream-store")?,
        &bench.place.fresh("stream-mount")?,
    )?;
    let [
        mut local_write,
        mut local_read,
        mut gupfs_write,
        mut gupfs_read,
    ] = [const { Figures(Vec::new()) }; 4];
    for _ in 0..bench.runs {
        for (dir, write, read) in [
            (local.as_path(), &mut local_write, &mut local_read),
            (serving.mount.as_path(), &mut gupfs_write, &mut gupfs_read),
        ] {
            let file = dir.join("stream");
            drop_caches()?;
            // Twice the file: gupfs's pages and the store's are both new.
            touch_memory(bench.stream * 2);
            write.push(rate(
                bench.stream,
                seconds(|| write_file(&file, bench.stream))?,
            ));
            drop_caches()?;
            touch_memory(bench.stream * 2);
            read.push(rate(
                bench.stream,
                seconds(|| read_file(&file, bench.stream))?,
            ));
            std::fs::remove_file(&file)?;
        }
    }
    serving.stop()?;
    for (what, gupfs, local, least, target) in [
        (
            "write, 1 MiB records, fsync at end",
            gupfs_write,
            local_write,
            0.6,
            "0.6 × local",
        ),
        (
            "read back cold, 1 MiB records",
            gupfs_read,
            local_read,
            0.5,
            "0.5 × local",
        ),
    ] {
        report.add(Line {
            work: format!("{what}, {} GiB", bench.stream >> 30),
            unit: "GB/s",
            reached: gupfs.median() >= least * local.median(),
            gupfs,
            beside: Some(("local".into(), local)),
            target,
        });
    }
    Ok(())
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e9 / seconds
}

fn write_file(path: &Path, bytes: u64) -> Result<()> {
    // Incompressible, and different in each record.
    let mut record = vec![0u8; RECORD];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for word in record.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
    let mut file = File::create(path)?;
    for number in 0..bytes / RECORD as u64 {
        record[..8].copy_from_slice(&number.to_ne_bytes());
        file.write_all(&record)?;
    }
    file.sync_all()?;
    Ok(())
}

fn read_file(path: &Path, bytes: u64) -> Result<()> {
    let mut record = vec![0u8; RECORD];
    let mut file = File::open(path)?;
    for number in 0..bytes / RECORD as u64 {
        file.read_exact(&mut record)?;
        ensure!(
            record[..8] == number.to_ne_bytes(),
            "record {number} is not what was written"
        );
    }
    Ok(())
}
