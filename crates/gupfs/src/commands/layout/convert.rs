//! `gupfs layout convert`: gives existing files another layout.

use super::{check, parse_count, resolve};
use crate::amount::{parse_size, show_count, show_size};
use crate::commands::mds_requests::show_progress;
use crate::control::{ControlRequest, ControlTarget};
use crate::exit::{CliError, CliResult, Exit};
use clap::Args;
use gupfs_proto::layout::{
    ConversionState, DefaultComponent, DefaultLayout, LayoutChange, Redundancy,
};
use gupfs_proto::limits::STRIPE_UNIT_DEFAULT;
use gupfs_proto::{ByteCount, FileOffset, InodeId};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files that cannot be converted at once, because a program writes them for instance, are tried so often, with a pause.
const PASSES: usize = 6;
const PASS_PAUSE: Duration = Duration::from_secs(1);

/// Give existing files another layout: copies, stripes, units
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs layout convert /mnt/gupfs/results --recursive --redundancy mirror:2
  gupfs layout convert /mnt/gupfs/run7.h5 --count all
  gupfs layout convert /mnt/gupfs/results --recursive

The metadata server copies the bytes of a file to new objects while no program writes it, and changes its layout in one step; programs may \
read it all the time, and a program that writes it makes the conversion begin again. What no option names stays as it is. Without any option a \
file gets the layout that new files of its directory get (`gupfs layout set`). Allocated space without bytes becomes a hole. Only one file is \
copied at a time, and needs space for its copy meanwhile. After an interruption the same command goes on.

Exit codes: 0 all have the layout · 1 some files could not be converted; they are as they were · 2 not on a gupfs mount, or wrong arguments · \
3 no process serves it")]
pub struct Convert {
    /// Files on the mount, or directories with --recursive
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// All files in and below the directories
    #[arg(long)]
    recursive: bool,
    /// Stripe unit: consecutive bytes on one OST before the file continues on the next, 64KiB to 1GiB
    #[arg(long, value_parser = parse_size)]
    unit: Option<u64>,
    /// Stripe count of a file's last component: OSTs that it is striped over, or 'all'
    #[arg(long, value_parser = parse_count, value_name = "N|all")]
    count: Option<u32>,
    /// What the files survive: 'mirror:N' stores each byte N times, in different failure domains; 'none' once
    #[arg(long, value_name = "none|mirror:N")]
    redundancy: Option<Redundancy>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// What was done so far.
#[derive(Default)]
struct Converted {
    examined: u64,
    converted: u64,
    bytes: u64,
    unneeded: u64,
    /// Files with several names.
    seen: BTreeSet<u64>,
    /// To be tried again, and why.
    left: Vec<(PathBuf, String)>,
    /// Not to be tried again.
    failed: Vec<(PathBuf, String)>,
}

impl Convert {
    pub fn run(self) -> CliResult<Exit> {
        check(&self.as_of_new_files())?;
        let (target, _) = resolve(&self.paths[0])?;
        let mut done = Converted::default();
        for path in &self.paths {
            let (its_target, _) = resolve(path)?;
            if its_target.mount != target.mount {
                return Err(CliError::new("these paths are on different mounts")
                    .todo("convert those of one mount with each command")
                    .exit(Exit::Unusable));
            }
            let is_dir = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            if is_dir && !self.recursive {
                return Err(CliError::new(format!("'{}' is a directory", path.display()))
                    .todo("add --recursive to convert all files in and below it; `gupfs layout set` sets the layout of new files")
                    .exit(Exit::Unusable));
            }
        }
        for path in &self.paths {
            self.convert_tree(&target, path, &mut done)?;
        }
        for _ in 1..PASSES {
            if done.left.is_empty() {
                break;
            }
            std::thread::sleep(PASS_PAUSE);
            for (path, _) in std::mem::take(&mut done.left) {
                self.convert_file(&target, &path, &mut done)?;
            }
        }
        show_progress("");
        done.failed.append(&mut done.left);
        self.print(&done);
        Ok(match done.failed.is_empty() {
            true => Exit::Fine,
            false => Exit::Failed,
        })
    }

    /// A default layout with what the options name.
    fn as_of_new_files(&self) -> DefaultLayout {
        let component = DefaultComponent {
            to: FileOffset(u64::MAX),
            unit: self.unit.map_or(STRIPE_UNIT_DEFAULT, ByteCount),
            count: self.count.unwrap_or(1),
            first: None,
            redundancy: self.redundancy.unwrap_or(Redundancy::None),
        };
        DefaultLayout {
            components: vec![component],
        }
    }

    fn change(&self) -> LayoutChange {
        LayoutChange {
            unit: self.unit.map(ByteCount),
            count: self.count,
            copies: self.redundancy.map(|redundancy| redundancy.copies() as u8),
        }
    }

    /// Converts a file, or all files in and below a directory, on its own file system.
    fn convert_tree(
        &self,
        target: &ControlTarget,
        root: &Path,
        done: &mut Converted,
    ) -> CliResult<()> {
        let device = root.symlink_metadata().map(|found| found.dev()).ok();
        let mut pending = vec![root.to_path_buf()];
        while let Some(path) = pending.pop() {
            let found = match path.symlink_metadata() {
                Ok(found) => found,
                Err(error) => {
                    done.note_error(path, &error);
                    continue;
                }
            };
            if Some(found.dev()) != device {
                continue;
            }
            if found.is_dir() {
                match std::fs::read_dir(&path) {
                    Ok(entries) => {
                        pending.extend(entries.flatten().map(|entry| entry.path()));
                    }
                    Err(error) => done.note_error(path, &error),
                }
            } else if found.is_file() && (found.nlink() == 1 || done.seen.insert(found.ino())) {
                done.examined += 1;
                self.convert_file(target, &path, done)?;
            }
        }
        Ok(())
    }

    fn convert_file(
        &self,
        target: &ControlTarget,
        path: &Path,
        done: &mut Converted,
    ) -> CliResult<()> {
        let ino = match path.symlink_metadata() {
            Ok(found) => InodeId(found.ino()),
            Err(error) => {
                done.note_error(path.to_path_buf(), &error);
                return Ok(());
            }
        };
        let request = ControlRequest::LayoutConvert {
            ino,
            change: self.change(),
        };
        loop {
            let state = match target.request::<ConversionState>(&request) {
                Ok(state) => state,
                // Not this file: all of them.
                Err(error) if error.exit == Exit::NotRunning => return Err(error),
                // Object servers may not have reported to a metadata server that was just started.
                Err(error) => {
                    done.left.push((path.to_path_buf(), error.to_string()));
                    return Ok(());
                }
            };
            let (copied, of) = match state {
                ConversionState::Unneeded => {
                    done.unneeded += 1;
                    return Ok(());
                }
                ConversionState::Done { bytes } => {
                    (done.converted, done.bytes) = (done.converted + 1, done.bytes + bytes);
                    show_progress(&done.describe());
                    return Ok(());
                }
                ConversionState::Left(why) => {
                    done.left.push((path.to_path_buf(), why));
                    return Ok(());
                }
                ConversionState::Copying { copied, of } => (copied, of),
                ConversionState::Waiting | ConversionState::Needed(_) => (0, 0),
            };
            let (done, name) = (done.describe(), path.display());
            show_progress(&match of {
                0 => format!("{done} · waiting for '{name}'"),
                of => format!(
                    "{done} · '{name}': {} of {}",
                    show_size(copied),
                    show_size(of)
                ),
            });
        }
    }

    fn print(&self, done: &Converted) {
        if self.json {
            let left = done.failed.iter();
            let left = left.map(|(path, why)| serde_json::json!({ "path": path, "why": why }));
            let json = serde_json::json!({
                "examined": done.examined,
                "converted": done.converted,
                "bytes": done.bytes,
                "unneeded": done.unneeded,
                "left": left.collect::<Vec<_>>(),
            });
            return println!("{json}");
        }
        println!("{}.", done.describe());
        for (path, why) in &done.failed {
            eprintln!("not converted: '{}': {why}", path.display());
        }
    }
}

impl Converted {
    /// A file that is gone need not be converted.
    fn note_error(&mut self, path: PathBuf, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::NotFound {
            self.failed.push((path, error.to_string()));
        }
    }

    fn describe(&self) -> String {
        format!(
            "{} of {} files converted, {} copied; {} need no conversion",
            show_count(self.converted),
            show_count(self.examined),
            show_size(self.bytes),
            show_count(self.unneeded)
        )
    }
}
