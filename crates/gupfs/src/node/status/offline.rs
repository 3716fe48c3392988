//! The status of a store that no process serves.

use crate::amount::show_size;
use crate::store_dir::{Marker, StoreDir};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// The status of a store that no process serves.
#[derive(Serialize)]
pub struct Offline {
    running: bool,
    dir: PathBuf,
    cluster: String,
    osts: Vec<OfflineOst>,
}

#[derive(Serialize)]
struct OfflineOst {
    ost: u16,
    /// Whether the directory exists and is not empty.
    present: bool,
    total: u64,
    free: u64,
}

impl Offline {
    pub fn of(store_dir: &StoreDir, marker: &Marker) -> Offline {
        let osts = marker.osts().map(|id| {
            let dir = store_dir.ost(id);
            let space = rustix::fs::statvfs(&dir);
            OfflineOst {
                ost: id.0,
                present: std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()),
                total: space
                    .as_ref()
                    .map_or(0, |space| space.f_blocks * space.f_frsize),
                free: space
                    .as_ref()
                    .map_or(0, |space| space.f_bavail * space.f_frsize),
            }
        });
        Offline {
            running: false,
            dir: store_dir.root().to_path_buf(),
            cluster: marker.cluster().to_string(),
            osts: osts.collect(),
        }
    }

    pub fn text(&self) -> String {
        let mut out = format!("no process serves {}\n", self.dir.display());
        for ost in &self.osts {
            let name = format!("ost{}", ost.ost);
            let _ = match ost.present {
                true => writeln!(
                    out,
                    "{name:<9} {} free of {}",
                    show_size(ost.free),
                    show_size(ost.total)
                ),
                false => writeln!(
                    out,
                    "{name:<9} MISSING: its directory is empty or does not exist"
                ),
            };
        }
        let _ = writeln!(out, "start it: gupfs up {} --mount MNT", self.dir.display());
        out
    }
}
