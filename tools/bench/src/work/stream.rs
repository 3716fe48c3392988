//! One process writes a file in records of 1 MiB and syncs it, then reads it back with cold caches.

use gupfs_kit::machine::drop_caches;

use super::Bench;
use crate::report::{Line, Report};
use crate::serve::Serving;
use crate::timing::{Figures, seconds};
use crate::work_directory::touch_memory;
use crate::xorshift::Xorshift;
use anyhow::{Result, ensure};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const RECORD: usize = 1 << 20;

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let local = bench.place.fresh("stream-local")?;
    let mut sides = Vec::new();
    for transport in &bench.transports {
        sides.push(MeasuredSide {
            name: transport.to_string(),
            serving: Some(bench.serve("stream", *transport)?),
            write: Figures::default(),
            read: Figures::default(),
        });
    }
    let mut beside = MeasuredSide {
        name: "local".into(),
        serving: None,
        write: Figures::default(),
        read: Figures::default(),
    };
    for _ in 0..bench.runs {
        for side in std::iter::once(&mut beside).chain(&mut sides) {
            side.measure(bench, &local)?;
        }
    }
    for side in sides {
        side.report(bench, &beside, report)?;
    }
    Ok(())
}

/// The local file system, or gupfs with requests coming one way.
struct MeasuredSide {
    name: String,
    serving: Option<Serving>,
    write: Figures,
    read: Figures,
}

impl MeasuredSide {
    /// Writes and reads the file once.
    fn measure(&mut self, bench: &Bench, local: &Path) -> Result<()> {
        let serving = self.serving.as_ref();
        let file = serving
            .map_or(local, |serving| &serving.mount)
            .join("stream");
        drop_caches()?;
        // Twice the file: gupfs's pages and the store's are both new.
        touch_memory(bench.stream * 2);
        let wrote = seconds(|| write_file(&file, bench.stream))?;
        self.write.push(rate(bench.stream, wrote));
        drop_caches()?;
        touch_memory(bench.stream * 2);
        let read = seconds(|| read_file(&file, bench.stream))?;
        self.read.push(rate(bench.stream, read));
        std::fs::remove_file(&file)?;
        Ok(())
    }

    /// Stops the server, and adds its figures beside those of the local file system.
    fn report(self, bench: &Bench, beside: &MeasuredSide, report: &mut Report) -> Result<()> {
        if let Some(serving) = self.serving {
            serving.stop()?;
        }
        let gib = bench.stream >> 30;
        let mut add = |what: &str, gupfs: Figures, local: &Figures, least, target| {
            report.add(Line {
                work: format!("{what}, {gib} GiB, {}", self.name),
                unit: "GB/s",
                reached: gupfs.median() >= least * local.median(),
                gupfs,
                beside: Some((beside.name.clone(), local.clone())),
                target,
            });
        };
        let work = "write, 1 MiB records, fsync at end";
        add(work, self.write, &beside.write, 0.6, "0.6 × local");
        let work = "read back cold, 1 MiB records";
        add(work, self.read, &beside.read, 0.5, "0.5 × local");
        Ok(())
    }
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e9 / seconds
}

fn write_file(path: &Path, bytes: u64) -> Result<()> {
    // Incompressible, and different in each record.
    let mut record = vec![0u8; RECORD];
    let mut numbers = Xorshift::new(0);
    for word in record.chunks_mut(8) {
        word.copy_from_slice(&numbers.draw().to_ne_bytes());
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
