//! Names of users, as getent(1) knows them: also those of a directory service.

use std::collections::BTreeMap;
use std::process::Command;

#[derive(Default)]
pub struct UserNames {
    names: BTreeMap<u32, String>,
}

impl UserNames {
    /// The user's name; the number if the host knows none.
    pub fn name(&mut self, uid: u32) -> String {
        let found = self.names.entry(uid).or_insert_with(|| look_up(uid));
        found.clone()
    }
}

fn look_up(uid: u32) -> String {
    let uid = uid.to_string();
    let output = Command::new("getent").args(["passwd", &uid]).output();
    let line = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = line.unwrap_or_default();
    match line.split_once(':') {
        Some((name, _)) if !name.is_empty() => name.to_owned(),
        _ => uid,
    }
}
