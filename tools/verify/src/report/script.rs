//! A finding as a script that plays it again.
//!
//! A shell script whose first lines are the session to read, and whose last line is the finding to play: what begins with `#: `.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ReportedFinding, Run};
use crate::check::Model;

const MARK: &str = "#: ";

/// A finding that can be played again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    pub close_to_open: bool,
    pub mount_of: Vec<u16>,
    pub found: ReportedFinding,
}

impl Run {
    pub fn script(&self, found: &ReportedFinding) -> String {
        let script = Script {
            close_to_open: self.model == Model::CloseToOpen,
            mount_of: self.mount_of.clone(),
            found: found.clone(),
        };
        let session: String = self
            .session(found)
            .iter()
            .map(|line| format!("#   {line}\n"))
            .collect();
        let mounts: Vec<&str> = self.mounts.iter().map(String::as_str).collect();
        let data = serde_json::to_string(&script).expect("numbers and texts have a JSON form");
        format!(
            "#!/bin/sh\n# Found by gupfs verify, about {}:\n#\n{session}#\n# Plays it again, there or on other mounts: {} MOUNT…\n\
             if [ $# = 0 ]; then set -- {}; fi\nexec ${{GUPFS_VERIFY:-gupfs verify}} \
             --replay \"$0\" \"$@\"\n{MARK}{data}\n",
            found.about,
            "$0",
            mounts.join(" "),
        )
    }
}

/// The finding that a saved script carries.
///
/// # Errors
///
/// The file cannot be read, or holds no finding.
pub fn read_script(path: &Path) -> io::Result<Script> {
    let text = std::fs::read_to_string(path)?;
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(MARK))
        .ok_or_else(|| io::Error::other("it is no script of gupfs verify"))?;
    serde_json::from_str(line).map_err(io::Error::other)
}
