//! A tar file with the files and directories of glibc 2.3, as in the source.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::rng::Rng;
use crate::size::MB;

/// A.2: "9188 files and 459 directories for a total of 75.8 MB of data".
pub const FILES: usize = 9_188;
pub const DIRECTORIES: usize = 459;
pub const BYTES: u64 = (75.8 * MB) as u64;

/// Sizes of files: most are small and few hold most of the bytes, as in a source tree. Exactly [`BYTES`] together.
fn sizes(rng: &mut Rng) -> Vec<u64> {
    // The sum of twelve numbers of 0..1 is close to a normal distribution; its power of e to a log-normal one.
    let mut normal = || (0..12).map(|_| rng.fraction()).sum::<f64>() - 6.0;
    let weights: Vec<f64> = (0..FILES).map(|_| (1.4 * normal()).exp()).collect();
    let all: f64 = weights.iter().sum();
    let mut sizes: Vec<u64> = weights
        .iter()
        .map(|weight| (weight / all * BYTES as f64) as u64)
        .collect();
    sizes[0] += BYTES - sizes.iter().sum::<u64>();
    sizes
}

/// Directories, each after the one that it lies in: a few levels deep.
fn directories(rng: &mut Rng) -> Vec<PathBuf> {
    let mut made = vec![PathBuf::from("tree")];
    while made.len() < DIRECTORIES {
        let parent = &made[rng.below(made.len() as u64) as usize];
        let depth = parent.components().count();
        if depth < 6 {
            made.push(parent.join(format!("d{:03}", made.len())));
        }
    }
    made
}

/// Writes the tar file. The same each time.
pub fn make(path: &Path) -> io::Result<()> {
    let mut rng = Rng::new(2_300);
    let directories = directories(&mut rng);
    let sizes = sizes(&mut rng);
    let mut tar = Builder::new(BufWriter::new(File::create_new(path)?));
    for directory in &directories {
        tar.append_data(
            &mut header(EntryType::Directory, 0o755, 0),
            directory,
            io::empty(),
        )?;
    }
    let mut bytes = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let directory = &directories[rng.below(directories.len() as u64) as usize];
        bytes.resize(*size as usize, 0);
        rng.fill(&mut bytes);
        let mut header = header(EntryType::Regular, 0o644, *size);
        tar.append_data(
            &mut header,
            directory.join(format!("f{index:04}.c")),
            &bytes[..],
        )?;
    }
    tar.into_inner()?.flush()
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    // 2002-10-03: the day of glibc 2.3.
    header.set_mtime(1_033_603_200);
    header
}

#[test]
fn it_has_the_shape_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tree.tar");
    make(&path).unwrap();
    let mut archive = tar::Archive::new(File::open(&path).unwrap());
    let (mut files, mut directories, mut bytes) = (0, 0, 0);
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        match entry.header().entry_type() {
            EntryType::Directory => directories += 1,
            _ => files += 1,
        }
        bytes += entry.size();
    }
    assert_eq!((files, directories, bytes), (FILES, DIRECTORIES, BYTES));
}
