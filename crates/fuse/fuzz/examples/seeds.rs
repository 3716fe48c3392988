//! Writes the seed inputs: `seeds DIRECTORY` creates a directory for each target in it.

use std::fs;
use std::io::Result;
use std::path::PathBuf;

use gupfs_fuse::fuzzing;
use gupfs_fuse_fuzz::input::{CROWDED, LONG, PAYLOAD_LIES};

fn write(target: &str, seeds: impl IntoIterator<Item = Vec<u8>>) -> Result<()> {
    let corpus = std::env::args_os().nth(1).map(PathBuf::from);
    let corpus = corpus.expect("usage: seeds DIRECTORY").join(target);
    fs::create_dir_all(&corpus)?;
    let mut seeds = seeds.into_iter().enumerate();
    seeds.try_for_each(|(number, seed)| fs::write(corpus.join(format!("seed-{number:03}")), seed))
}

fn main() -> Result<()> {
    let messages = fuzzing::messages();
    let after = |before: &[u8], message: &Vec<u8>| [before, message].concat();
    write(
        "device",
        messages.iter().map(|message| after(&[LONG], message)),
    )?;
    // In a ring the data of WRITE is the payload, and so are names.
    let ring_entries = messages.iter().flat_map(|message| {
        [0, 8, 16, 40, 128].map(|fixed| after(&[LONG | CROWDED, fixed], message))
    });
    let lie = [PAYLOAD_LIES, 40, 0, 16, 0, 0];
    write(
        "ring",
        ring_entries.chain(messages.iter().map(|message| after(&lie, message))),
    )?;
    write("init", [after(&[0], &fuzzing::init())])?;
    write(
        "dirents",
        [b"\0\x10\0\0\x04name\x08exactly8\0\x01a".to_vec()],
    )?;
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mut tables: Vec<_> = mounts
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    tables.extend([b"0-3,8,10-127".to_vec(), b"/mnt/a\\040b c".to_vec()]);
    write("tables", tables)
}
