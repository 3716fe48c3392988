//! gupfs.toml: the cluster of a store directory, and which program versions may open it.

use super::{StoreDir, path_error};
use crate::exit::{CliError, CliResult};
use gupfs_proto::{ClusterId, CopyId, Incarnation, OstId, VirtualShards};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

pub const MARKER: &str = "gupfs.toml";
/// The file of an initialisation that is not complete: the first that it writes, the last that it removes.
pub(super) const UNFINISHED: &str = "gupfs.init";

const FORMAT: &str = "gupfs store";
/// The directory format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// Features of stores that this program supports. It refuses a store with any other feature, and names the feature.
const FEATURES: [&str; 1] = [COPIES];
/// The metadata has copies on other hosts: no program may serve it that does not know this.
const COPIES: &str = "copies";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    format: String,
    version: u32,
    features: Vec<String>,
    cluster: String,
    /// Incarnation of the metadata store; seeds the checksums of its log.
    metadata: String,
    pub virtual_shards: u16,
    osts: Vec<u16>,
    /// The identity of this directory's copy of the metadata; None where it has no copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<MarkedCopy>,
}

/// A directory that is, or is to be, one of several copies of the metadata.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkedCopy {
    id: String,
    /// Other directories may have newer metadata: this one never begins a new list of copies by itself.
    has_joined: bool,
}

/// The part that all format versions share.
#[derive(Deserialize)]
struct MarkerHead {
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
            copy: None,
        }
    }

    /// The identity of this copy of the metadata.
    pub fn copy(&self) -> Option<CopyId> {
        let copy = self.copy.as_ref()?;
        Some(CopyId(
            u64::from_str_radix(&copy.id, 16).unwrap_or_default(),
        ))
    }

    /// Whether other directories may have newer metadata.
    pub fn has_joined(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| copy.has_joined)
    }

    pub(super) fn set_copy(&mut self, id: CopyId, has_joined: bool) {
        self.features = vec![COPIES.into()];
        self.copy = Some(MarkedCopy {
            id: format!("{:016x}", id.0),
            has_joined,
        });
    }

    pub fn cluster(&self) -> ClusterId {
        // `parse` has checked it.
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

/// The marker; None if the directory has none.
pub(super) fn read(store_dir: &StoreDir) -> CliResult<Option<Marker>> {
    read_file(&store_dir.marker())
}

/// The marker of an initialisation that was interrupted; None if there was none.
pub(super) fn read_unfinished(store_dir: &StoreDir) -> CliResult<Option<Marker>> {
    read_file(&store_dir.root().join(UNFINISHED))
}

fn read_file(path: &Path) -> CliResult<Option<Marker>> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(path_error("read", path, &error)),
    }
}

fn parse(text: &str, path: &Path) -> CliResult<Marker> {
    let dir = path.parent().unwrap_or(path).display();
    let unreadable = |why: String| {
        CliError::new(format!("'{}' is not the marker of a gupfs store: {why}", path.display()))
            .todo("if it was edited or damaged, restore it from a backup; the log of the last start has its values, too")
    };
    let head: MarkerHead =
        toml::from_str(text).map_err(|error| unreadable(error.message().to_string()))?;
    if head.format != FORMAT {
        return Err(unreadable(format!("its format is '{}'", head.format)));
    }
    if head.version > VERSION {
        return Err(CliError::new(format!(
            "the store in '{dir}' has format version {}; this program reads up to version {VERSION}",
            head.version
        ))
        .todo("use the newer gupfs that wrote it"));
    }
    let unknown: Vec<&str> = head
        .features
        .iter()
        .map(String::as_str)
        .filter(|name| !FEATURES.contains(name))
        .collect();
    if !unknown.is_empty() {
        return Err(CliError::new(format!(
            "the store in '{dir}' uses features that this program does not support: {}",
            unknown.join(", ")
        ))
        .todo("use the newer gupfs that wrote it"));
    }
    let marker: Marker =
        toml::from_str(text).map_err(|error| unreadable(error.message().to_string()))?;
    if u128::from_str_radix(&marker.cluster, 16).is_err() {
        return Err(unreadable(format!(
            "'{}' is not a cluster id",
            marker.cluster
        )));
    }
    if u64::from_str_radix(&marker.metadata, 16).is_err() {
        return Err(unreadable(format!(
            "'{}' is not an incarnation",
            marker.metadata
        )));
    }
    if let Some(copy) = &marker.copy
        && u64::from_str_radix(&copy.id, 16).is_err()
    {
        return Err(unreadable(format!("'{}' is not the id of a copy", copy.id)));
    }
    if marker.virtual_shards == 0 {
        return Err(unreadable("its number of virtual shards is 0".into()));
    }
    Ok(marker)
}

/// Writes the marker to a temporary file, syncs it, renames it, and syncs the directory: after a power loss the marker is the old or
/// the new one, never a part.
pub(super) fn write(store_dir: &StoreDir, marker: &Marker) -> CliResult<()> {
    write_file(
        store_dir,
        MARKER,
        marker,
        "This directory is a gupfs store; this file says which program may open it.\n# gupfs writes it: do not edit.",
    )
}

pub(super) fn write_unfinished(store_dir: &StoreDir, marker: &Marker) -> CliResult<()> {
    write_file(
        store_dir,
        UNFINISHED,
        marker,
        "gupfs is initialising this directory as a store. It holds no data as long as this\n# file exists and gupfs.toml does not.",
    )
}

pub(super) fn remove_unfinished(store_dir: &StoreDir) -> CliResult<()> {
    let path = store_dir.root().join(UNFINISHED);
    match std::fs::remove_file(&path) {
        Ok(()) => sync_dir(store_dir.root()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(path_error("remove", &path, &error)),
    }
}

fn write_file(store_dir: &StoreDir, name: &str, marker: &Marker, comment: &str) -> CliResult<()> {
    let (path, temporary) = (
        store_dir.root().join(name),
        store_dir.root().join(format!("{name}.new")),
    );
    let text = toml::to_string(marker).expect("a marker has only values that TOML has");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&temporary)?;
        write!(file, "# {comment}\n\n{text}")?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)
    };
    write().map_err(|error| path_error("write", &path, &error))?;
    sync_dir(store_dir.root())
}

pub(super) fn sync_dir(dir: &Path) -> CliResult<()> {
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| path_error("sync", dir, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let shown = match parse(text, Path::new("/srv/x/gupfs.toml")) {
            Ok(marker) => format!("{} OSTs", marker.osts().len()),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    fn marker_text() -> String {
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
        check(&marker_text(), expect!["2 OSTs"]);
    }

    #[test]
    fn a_copy_keeps_its_identity_and_names_the_feature() {
        let mut marker: Marker = toml::from_str(&marker_text()).unwrap();
        assert_eq!((marker.copy(), marker.has_joined()), (None, false));
        marker.set_copy(CopyId(0xab), true);
        let text = toml::to_string(&marker).unwrap();
        assert!(text.contains("features = [\"copies\"]"), "{text}");
        let read = parse(&text, Path::new("/srv/x/gupfs.toml")).unwrap();
        assert_eq!((read.copy(), read.has_joined()), (Some(CopyId(0xab)), true));
        check(
            &text.replace("00000000000000ab", "none"),
            expect![[r#"
                '/srv/x/gupfs.toml' is not the marker of a gupfs store: 'none' is not the id of a copy.
                  → if it was edited or damaged, restore it from a backup; the log of the last start has its values, too."#]],
        );
    }

    #[test]
    fn a_newer_version_is_refused_even_with_unknown_keys() {
        let newer =
            marker_text().replace("version = 1", "version = 9") + "\n[shape]\nround = true\n";
        check(
            &newer,
            expect![[r#"
                the store in '/srv/x' has format version 9; this program reads up to version 1.
                  → use the newer gupfs that wrote it."#]],
        );
    }

    #[test]
    fn an_unknown_feature_is_refused_by_name() {
        let other = marker_text().replace("features = []", "features = [\"erasure-coding\"]");
        check(
            &other,
            expect![[r#"
                the store in '/srv/x' uses features that this program does not support: erasure-coding.
                  → use the newer gupfs that wrote it."#]],
        );
    }

    #[test]
    fn a_file_of_another_program_with_that_name_is_refused() {
        check(
            "[package]\nname = \"x\"\n",
            expect![[r#"
                '/srv/x/gupfs.toml' is not the marker of a gupfs store: missing field `format`.
                  → if it was edited or damaged, restore it from a backup; the log of the last start has its values, too."#]],
        );
    }
}
