//! Small reads at random places of a file that is not in memory: one reader, and four.

use gupfs_kit::machine::drop_caches;

use super::Bench;
use crate::report::{Line, Report};
use crate::serve::Serving;
use crate::timing::{Figures, seconds};
use crate::work_directory::touch_memory;
use crate::xorshift::Xorshift;
use anyhow::{Result, ensure};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the file: each page of it says where it is.
const FILE: u64 = 512 << 20;
const PAGE: u64 = 4096;
/// Of one reader.
const READS: u64 = 2000;
const SIZES: [u64; 2] = [4 << 10, 64 << 10];
const READERS: [u64; 2] = [1, 4];

/// Bytes of a read, number of readers, and their rate.
type Figure = (u64, u64, Figures);

struct MeasuredSide {
    name: String,
    serving: Option<Serving>,
    figures: Vec<Figure>,
}

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let local = bench.place.fresh("random-local")?;
    let side = |name: String, serving| MeasuredSide {
        name,
        serving,
        figures: SIZES
            .iter()
            .flat_map(|size| READERS.map(|readers| (*size, readers, Figures::default())))
            .collect(),
    };
    let mut sides = vec![side("local".into(), None)];
    for transport in &bench.transports {
        let serving = bench.serve("random", *transport)?;
        sides.push(side(transport.to_string(), Some(serving)));
    }
    touch_memory(FILE * 2);
    for side in &sides {
        write_file(&path(side, &local))?;
    }
    for turn in 0..bench.runs as u64 {
        for side in &mut sides {
            let file = path(side, &local);
            for (size, readers, figures) in &mut side.figures {
                drop_caches()?;
                let time = seconds(|| read_by(&file, *size, *readers, turn))?;
                figures.push((READS * *readers) as f64 / time / 1e3);
            }
        }
    }
    let beside = sides.remove(0);
    for side in sides {
        for ((size, readers, gupfs), (_, _, local)) in side.figures.into_iter().zip(&beside.figures)
        {
            report.add(Line {
                work: format!(
                    "read cold at random, {} KiB, {readers} readers, {}",
                    size >> 10,
                    side.name
                ),
                unit: "k/s",
                reached: gupfs.median() >= 0.5 * local.median(),
                gupfs,
                beside: Some((beside.name.clone(), local.clone())),
                target: "0.5 × local",
            });
        }
        if let Some(serving) = side.serving {
            serving.stop()?;
        }
    }
    Ok(())
}

fn path(side: &MeasuredSide, local: &Path) -> std::path::PathBuf {
    let dir = side
        .serving
        .as_ref()
        .map_or(local, |serving| &serving.mount);
    dir.join("random")
}

fn write_file(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    let mut block = vec![0u8; 1 << 20];
    for start in (0..FILE).step_by(block.len()) {
        for (number, page) in block.chunks_mut(PAGE as usize).enumerate() {
            page[..8].copy_from_slice(&(start / PAGE + number as u64).to_ne_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(())
}

fn read_by(path: &Path, size: u64, readers: u64, turn: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..readers)
            .map(|reader| scope.spawn(move || read_file(path, size, turn * 100 + reader)))
            .collect();
        all.into_iter().try_for_each(|reader| {
            let ended = reader.join();
            ended.unwrap_or_else(|_| anyhow::bail!("a reader panicked"))
        })
    })
}

fn read_file(path: &Path, size: u64, seed: u64) -> Result<()> {
    let file = File::open(path)?;
    fadvise(&file, 0, None, Advice::Random)?;
    let mut bytes = vec![0u8; size as usize];
    let mut numbers = Xorshift::new(seed);
    for _ in 0..READS {
        let at = numbers.draw() % (FILE / size) * size;
        file.read_exact_at(&mut bytes, at)?;
        ensure!(
            bytes[..8] == (at / PAGE).to_ne_bytes(),
            "what was read at {at} is not what was written"
        );
    }
    Ok(())
}
