//! gupfs.toml: whose directory this is, and which program may open it.

use super::{StoreDir, cannot};
use crate::exit::{CliError, CliResult};
use gupfs_proto::{ClusterId, Incarnation, OstId, VirtualShards};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

pub const MARKER: &str = "gupfs.toml";
/// Written before anything else; gone when all is in place.
pub(super) const BEGUN: &str = "gupfs.init";

const FORMAT: &str = "gupfs store";
/// The directory format this program writes, and the newest it reads.
pub const VERSION: u32 = 1;
/// Features of stores that this program understands; a store that uses another is refused by its name.
const FEATURES: [&str; 0] = [];

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    format: String,
    version: u32,
    features: Vec<String>,
    cluster: String,
    /// Of the metadata store: its log's checksums are made with it.
    metadata: String,
    pub virtual_shards: u16,
    osts: Vec<u16>,
}

/// The part that every version has, whatever else it has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
    #[serde(default)]
    features: Vec<String>,
}

impl Marker {
    pub fn new(
        cluster: ClusterId,
        metadata: Incarnation,
        shards: VirtualShards,
        osts: Vec<OstId>,
    ) -> Marker {
        Marker {
            format: FORMAT.into(),
            version: VERSION,
            features: Vec::new(),
            cluster: format!("{:032x}", cluster.0),
            metadata: format!("{:016x}", metadata.0),
            virtual_shards: shards.0,
            osts: osts.into_iter().map(|ost| ost.0).collect(),
        }
    }

    pub fn cluster(&self) -> ClusterId {
        // Checked when the marker was read.
        ClusterId(u128::from_str_radix(&self.cluster, 16).unwrap_or_default())
    }

    pub fn metadata(&self) -> Incarnation {
        Incarnation(u64::from_str_radix(&self.metadata, 16).unwrap_or_default())
    }

    pub fn osts(&self) -> impl ExactSizeIterator<Item = OstId> + '_ {
        self.osts.iter().map(|id| OstId(*id))
    }

    pub(super) fn add(&mut self, ost: OstId) {
        self.osts.push(ost.0);
    }
}

/// None if the directory has no marker.
pub(super) fn read(home: &StoreDir) -> CliResult<Option<Marker>> {
    read_file(&home.marker())
}

/// The marker of an initialisation that did not come to its end.
pub(super) fn read_begun(home: &StoreDir) -> CliResult<Option<Marker>> {
    read_file(&home.root().join(BEGUN))
}

fn read_file(path: &Path) -> CliResult<Option<Marker>> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", path, &error)),
    }
}

fn parse(text: &str, path: &Path) -> CliResult<Marker> {
    let dir = path.parent().unwrap_or(path).display();
    let unreadable = |why: String| {
        CliError::new(format!("'{}' is not the marker of a gupfs store: {why}", path.display()))
            .todo("if it was edited or damaged, restore it from a backup; its values are also shown by the log of the last start")
    };
    let head: Head =
        toml::from_str(text).map_err(|error| unreadable(error.message().to_string()))?;
    if head.format != FORMAT {
        return Err(unreadable(format!("its format is '{}'", head.format)));
    }
    if head.version > VERSION {
        return Err(CliError::new(format!(
            "the store in '{dir}' has format version {}; this program reads up to version {VERSION}",
            head.version
        ))
        .todo("use the newer gupfs that made it"));
    }
    let unknown: Vec<&str> = head
        .features
        .iter()
        .map(String::as_str)
        .filter(|name| !FEATURES.contains(name))
        .collect();
    if !unknown.is_empty() {
        return Err(CliError::new(format!(
            "the store in '{dir}' uses what this program does not know: {}",
            unknown.join(", ")
        ))
        .todo("use the newer gupfs that made it"));
    }
    let marker: Marker =
        toml::from_str(text).map_err(|error| unreadable(error.message().to_string()))?;
    if u128::from_str_radix(&marker.cluster, 16).is_err() {
        return Err(unreadable(format!("'{}' is no cluster id", marker.cluster)));
    }
    if u64::from_str_radix(&marker.metadata, 16).is_err() {
        return Err(unreadable(format!(
            "'{}' is no incarnation",
            marker.metadata
        )));
    }
    if marker.virtual_shards == 0 {
        return Err(unreadable("it has no virtual shard".into()));
    }
    Ok(marker)
}

/// Whole or not at all, also over a power cut: written aside, synced, renamed, and the directory synced.
pub(super) fn write(home: &StoreDir, marker: &Marker) -> CliResult<()> {
    write_file(
        home,
        MARKER,
        marker,
        "This directory is a gupfs store; this file says which program may open it.\n# It is written by gupfs: do not edit.",
    )
}

pub(super) fn write_begun(home: &StoreDir, marker: &Marker) -> CliResult<()> {
    write_file(
        home,
        BEGUN,
        marker,
        "This directory is being made a gupfs store. No data is in it while this file\n# is here and gupfs.toml is not.",
    )
}

pub(super) fn remove_begun(home: &StoreDir) -> CliResult<()> {
    let path = home.root().join(BEGUN);
    match std::fs::remove_file(&path) {
        Ok(()) => sync_dir(home.root()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot("remove", &path, &error)),
    }
}

fn write_file(home: &StoreDir, name: &str, marker: &Marker, comment: &str) -> CliResult<()> {
    let (path, aside) = (
        home.root().join(name),
        home.root().join(format!("{name}.new")),
    );
    let text = toml::to_string(marker).expect("a marker has only values that TOML has");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&aside)?;
        write!(file, "# {comment}\n\n{text}")?;
        file.sync_all()?;
        std::fs::rename(&aside, &path)
    };
    write().map_err(|error| cannot("write", &path, &error))?;
    sync_dir(home.root())
}

pub(super) fn sync_dir(dir: &Path) -> CliResult<()> {
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| cannot("sync", dir, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let shown = match parse(text, Path::new("/srv/x/gupfs.toml")) {
            Ok(marker) => format!("{} OSTs", marker.osts().len()),
            Err(trouble) => trouble.to_string(),
        };
        expected.assert_eq(&shown);
    }

    fn ours() -> String {
        toml::to_string(&Marker::new(
            ClusterId(7),
            Incarnation(9),
            VirtualShards(64),
            vec![OstId(0), OstId(1)],
        ))
        .unwrap()
    }

    #[test]
    fn a_marker_reads_back() {
        check(&ours(), expect!["2 OSTs"]);
    }

    #[test]
    fn a_newer_version_is_refused_even_with_keys_we_do_not_know() {
        let newer = ours().replace("version = 1", "version = 9") + "\n[shape]\nround = true\n";
        check(
            &newer,
            expect![[r#"
                the store in '/srv/x' has format version 9; this program reads up to version 1.
                  → use the newer gupfs that made it."#]],
        );
    }

    #[test]
    fn an_unknown_feature_is_refused_by_name() {
        let other = ours().replace("features = []", "features = [\"erasure-coding\"]");
        check(
            &other,
            expect![[r#"
                the store in '/srv/x' uses what this program does not know: erasure-coding.
                  → use the newer gupfs that made it."#]],
        );
    }

    #[test]
    fn another_programs_file_of_that_name_is_not_taken_for_ours() {
        check(
            "[package]\nname = \"x\"\n",
            expect![[r#"
                '/srv/x/gupfs.toml' is not the marker of a gupfs store: missing field `format`.
                  → if it was edited or damaged, restore it from a backup; its values are also shown by the log of the last start."#]],
        );
    }
}
