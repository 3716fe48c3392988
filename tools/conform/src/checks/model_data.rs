//! Random changes of one file beside a byte vector: after each the two must agree.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    (1..=8u64)
        .map(|seed| {
            check(
                format!("model/random-changes-of-a-files-bytes-{seed}"),
                "Writes, cuts, holes, copies and mappings in any order leave exactly the bytes that they say.",
                move |_| Player::new(seed)?.play(120),
            )
        })
        .collect()
}

/// The file stays below this: a few units of every usual striping, not a multiple of anything.
const LARGEST: usize = (3 << 20) + 4097;

/// A file and what it must hold.
struct Player {
    fd: Fd,
    bytes: Vec<u8>,
    dice: u64,
    /// The last steps, for the report.
    played: Vec<String>,
}

impl Player {
    fn new(seed: u64) -> Outcome<Player> {
        let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
        Ok(Player {
            fd,
            bytes: Vec::new(),
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            played: Vec::new(),
        })
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) as usize % sides
    }

    /// Offsets and lengths cluster around borders, where mistakes live.
    fn spot(&mut self, most: usize) -> usize {
        let base = match self.roll(4) {
            0 => self.roll(most.max(1)),
            1 => self.roll(800) * 4096,
            2 => self.roll(4) << 20,
            _ => self.bytes.len(),
        };
        (base + self.roll(5)).saturating_sub(2).min(most)
    }

    fn play(mut self, steps: usize) -> Outcome {
        for step in 0..steps {
            match self.step(step as u8 | 1).and_then(|()| self.compare()) {
                Ok(()) => {}
                Err(NotPassed::Failed(mut failure)) => {
                    let last = self
                        .played
                        .iter()
                        .rev()
                        .take(6)
                        .rev()
                        .cloned()
                        .collect::<Vec<_>>()
                        .join("; ");
                    failure.found += &format!(", at step {step}, after: {last}");
                    return Err(NotPassed::Failed(failure));
                }
                Err(skipped) => return Err(skipped),
            }
        }
        holds("f", &self.bytes)
    }

    fn step(&mut self, seed: u8) -> Outcome {
        let at = self.spot(LARGEST - 1);
        let length = match self.roll(3) {
            0 => 1 + self.roll(100),
            1 => 1 + self.roll(20_000),
            _ => 1 + self.roll(300_000),
        }
        .min(LARGEST - at);
        match self.roll(10) {
            0..=2 => self.write(seed, at, length),
            3 => self.cut(at),
            4 => self.empty(
                "punch",
                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                at,
                length,
            ),
            5 => self.empty(
                "zero",
                FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
                at,
                length,
            ),
            6 => self.store(seed, at, length),
            7 => self.copy(at, length),
            8 => self.grow(at, length),
            _ => self.reopen(),
        }
    }

    fn write(&mut self, seed: u8, at: usize, length: usize) -> Outcome {
        self.played.push(format!("write {length} at {at}"));
        let bytes = pattern(seed, length);
        let mut done = 0;
        while done < length {
            let taken = pwrite(&self.fd, &bytes[done..], (at + done) as i64)?;
            truth("pwrite takes bytes", taken > 0)?;
            done += taken;
        }
        self.place(at, &bytes);
        Ok(())
    }

    fn place(&mut self, at: usize, bytes: &[u8]) {
        if self.bytes.len() < at + bytes.len() {
            self.bytes.resize(at + bytes.len(), 0);
        }
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn cut(&mut self, at: usize) -> Outcome {
        self.played.push(format!("truncate to {at}"));
        ftruncate(&self.fd, at as i64)?;
        self.bytes.resize(at, 0);
        Ok(())
    }

    /// Zeros by punching or zeroing; where the file system lacks it, no change.
    fn empty(&mut self, word: &str, mode: i32, at: usize, length: usize) -> Outcome {
        self.played.push(format!("{word} {length} at {at}"));
        match fallocate(&self.fd, mode, at as i64, length as i64) {
            Err(refused) if refused.errno == EOPNOTSUPP => return Ok(()),
            answer => answer?,
        }
        let end = (at + length).min(self.bytes.len());
        self.bytes[at.min(end)..end].fill(0);
        Ok(())
    }

    fn grow(&mut self, at: usize, length: usize) -> Outcome {
        self.played.push(format!("allocate {length} at {at}"));
        match fallocate(&self.fd, 0, at as i64, length as i64) {
            Err(refused) if refused.errno == EOPNOTSUPP => return Ok(()),
            answer => answer?,
        }
        let size = self.bytes.len().max(at + length);
        self.bytes.resize(size, 0);
        Ok(())
    }

    /// Through a shared mapping, within the file.
    fn store(&mut self, seed: u8, at: usize, length: usize) -> Outcome {
        let end = (at + length).min(self.bytes.len());
        if at >= end {
            return Ok(());
        }
        self.played.push(format!("store {} at {at}", end - at));
        let map = mmap(
            &self.fd,
            0,
            self.bytes.len(),
            PROT_READ | PROT_WRITE,
            MAP_SHARED,
        )?;
        let bytes = pattern(seed, end - at);
        map.store(at, &bytes);
        if seed & 2 == 0 {
            map.sync(MS_SYNC)?;
        }
        self.place(at, &bytes);
        Ok(())
    }

    /// Within the file, to where source and destination do not overlap.
    fn copy(&mut self, from: usize, length: usize) -> Outcome {
        let end = (from + length).min(self.bytes.len());
        let to = self.spot(LARGEST - 1);
        let length = end.saturating_sub(from).min(LARGEST - to);
        if length == 0 || from.abs_diff(to) < length {
            return Ok(());
        }
        self.played
            .push(format!("copy {length} from {from} to {to}"));
        let mut done = 0;
        while done < length {
            let (mut source, mut target) = ((from + done) as i64, (to + done) as i64);
            let moved = copy_file_range(
                &self.fd,
                Some(&mut source),
                &self.fd,
                Some(&mut target),
                length - done,
                0,
            )?;
            truth("copy_file_range moves bytes", moved > 0)?;
            done += moved;
        }
        let bytes = self.bytes[from..from + length].to_vec();
        self.place(to, &bytes);
        Ok(())
    }

    fn reopen(&mut self) -> Outcome {
        self.played.push("fsync, drop the cache, open again".into());
        fsync(&self.fd)?;
        same(
            "advice",
            fadvise(&self.fd, 0, 0, libc::POSIX_FADV_DONTNEED),
            Ok(()),
        )?;
        self.fd = reopen("f", O_RDWR)?;
        Ok(())
    }

    fn compare(&self) -> Outcome {
        same("size", fstat(&self.fd)?.size, self.bytes.len() as i64)?;
        same_bytes("f", &contents_of(&self.fd)?, &self.bytes)
    }
}
