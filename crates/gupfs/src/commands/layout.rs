//! `gupfs layout`: shows and converts the layouts of files, shows and sets the default layout of a directory.

mod convert;

use crate::amount::parse_size;
use crate::control::{ControlRequest, ControlTarget};
use crate::exit::{CliError, CliResult, Exit};
use crate::node::LayoutView;
use clap::{Args, Subcommand};
use gupfs_proto::layout::{DefaultComponent, DefaultLayout, Redundancy};
use gupfs_proto::limits::{MIRRORED_UNIT_DEFAULT, STRIPE_UNIT_DEFAULT};
use gupfs_proto::{ByteCount, FileOffset, InodeId, OstId};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Show or set how files are laid out over the OSTs
#[derive(Subcommand)]
pub enum Layout {
    Get(Get),
    Set(Set),
    Convert(convert::Convert),
}

/// Show the layout of a file, or the default layout for new files of a directory
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs layout get /mnt/gupfs/results/run7.h5
  gupfs layout get --json /mnt/gupfs/results

Exit codes: 0 shown · 1 the layout cannot be read · 2 not on a gupfs mount · 3 no process serves it")]
pub struct Get {
    /// A file or directory on the mount
    path: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Set the default layout for new files of a directory; existing files keep their layout
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs layout set /mnt/gupfs/checkpoints --unit 4MiB --count all
  gupfs layout set /mnt/gupfs/small --count 1
  gupfs layout set /mnt/gupfs/results --redundancy mirror:2
  gupfs layout set /mnt/gupfs/small --inherit

Directories that are created in it later inherit its default layout.

Exit codes: 0 set · 1 refused · 2 not on a gupfs mount, or wrong arguments · 3 no process serves it")]
pub struct Set {
    /// A directory on the mount
    path: PathBuf,
    /// Stripe unit: consecutive bytes on one OST before the file continues on the next, 64KiB to 1GiB [default: 1MiB, with mirrors
    /// 256KiB]
    #[arg(long, value_parser = parse_size)]
    unit: Option<u64>,
    /// Stripe count: OSTs that a file is striped over, or 'all'
    #[arg(long, value_parser = parse_count, default_value = "4", value_name = "N|all")]
    count: u32,
    /// Size of the first component, which lies on one OST so that a small file has one object; 0 for none
    #[arg(long, value_parser = parse_size, default_value = "4MiB", value_name = "SIZE")]
    first_component: u64,
    /// Place the first stripe on this OST instead of the one with most free space
    #[arg(long, value_name = "N")]
    first_ost: Option<u16>,
    /// What new files survive: 'mirror:N' stores each byte N times, on different hosts if there are several; 'none' once
    #[arg(long, default_value_t = Redundancy::None, value_name = "none|mirror:N")]
    redundancy: Redundancy,
    /// Remove the default layout of this directory: the parent directory decides again
    #[arg(long, conflicts_with_all = ["unit", "count", "first_component", "first_ost", "redundancy"])]
    inherit: bool,
}

impl Layout {
    pub fn run(self) -> CliResult<Exit> {
        match self {
            Layout::Get(get) => get.run(),
            Layout::Set(set) => set.run(),
            Layout::Convert(convert) => convert.run(),
        }
    }
}

impl Get {
    fn run(self) -> CliResult<Exit> {
        let (target, ino) = resolve(&self.path)?;
        let view: LayoutView = target.request(&ControlRequest::LayoutGet { ino })?;
        if self.json {
            println!("{}", serde_json::json!(view));
        } else {
            print!("{}", view.text());
        }
        Ok(Exit::Fine)
    }
}

impl Set {
    fn run(self) -> CliResult<Exit> {
        let rule = (!self.inherit).then(|| self.rule());
        if let Some(rule) = &rule {
            check(rule)?;
        }
        let (target, ino) = resolve(&self.path)?;
        if !self.path.symlink_metadata().is_ok_and(|it| it.is_dir()) {
            return Err(CliError::new(format!("'{}' is not a directory", self.path.display()))
                .todo("name a directory, whose new files get the layout; `gupfs layout convert` gives another layout to a file")
                .exit(Exit::Unusable));
        }
        let set = target.request::<LayoutView>(&ControlRequest::LayoutSet { ino, rule });
        let view = set.map_err(|error| match self.redundancy {
            Redundancy::None => error,
            Redundancy::Mirror(copies) => error.todo(format!(
                "mirror:{copies} needs OSTs in {copies} failure domains: those that `gupfs oss --domain NAME` names, else hosts, or on one host servers, or OSTs of one server"
            )),
        })?;
        print!("{}", view.text());
        Ok(Exit::Fine)
    }

    fn rule(&self) -> DefaultLayout {
        let unit = match (self.unit, self.redundancy) {
            (Some(unit), _) => ByteCount(unit),
            (None, Redundancy::None) => STRIPE_UNIT_DEFAULT,
            (None, Redundancy::Mirror(_)) => MIRRORED_UNIT_DEFAULT,
        };
        let component = |to, count| DefaultComponent {
            to: FileOffset(to),
            unit,
            count,
            first: self.first_ost.map(OstId),
            redundancy: self.redundancy,
        };
        let mut components = vec![component(u64::MAX, self.count)];
        if self.first_component > 0 && self.count != 1 {
            components.insert(0, component(self.first_component, 1));
        }
        DefaultLayout { components }
    }
}

/// # Errors
/// If no file can have this layout.
fn check(layout: &DefaultLayout) -> CliResult<()> {
    layout.check().map_err(|_| {
        CliError::new("this layout is not valid")
            .todo(
                "unit: 64KiB to 1GiB in steps of 64KiB; count: up to 512; first component: a size",
            )
            .exit(Exit::Unusable)
    })
}

fn parse_count(text: &str) -> Result<u32, String> {
    match text {
        "all" => Ok(0),
        _ => match text.parse() {
            Ok(0) | Err(_) => Err(format!(
                "'{text}' is neither a number of at least 1 nor 'all'"
            )),
            Ok(count) => Ok(count),
        },
    }
}

/// The process that serves a path on a mount, and the path's inode number.
fn resolve(path: &Path) -> CliResult<(ControlTarget, InodeId)> {
    let metadata = std::fs::symlink_metadata(path).map_err(|error| {
        CliError::new(format!("cannot find '{}'", path.display()))
            .because(&error)
            .exit(Exit::Unusable)
    })?;
    let target = ControlTarget::find(Some(path))?;
    if target.mount.is_none() {
        return Err(
            CliError::new(format!("'{}' is a store, not on a mount", path.display()))
                .todo("name a file or directory below the mount point")
                .exit(Exit::Unusable),
        );
    }
    Ok((target, InodeId(metadata.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_or_all() {
        assert_eq!(parse_count("all"), Ok(0));
        assert_eq!(parse_count("7"), Ok(7));
        assert!(parse_count("0").is_err());
        assert!(parse_count("some").is_err());
    }
}
