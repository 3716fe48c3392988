//! Finds the programs of workloads.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{SuiteError, SuiteResult};

/// This executable and the words behind which it takes a program's name, such as `gupfs bench`.
#[derive(Clone, Debug)]
pub struct SelfCommand {
    pub words: Vec<OsString>,
    /// The programs that it is.
    pub programs: Vec<String>,
}

/// How a program is started: a command without the program's own arguments.
pub fn find(name: &str, self_command: &SelfCommand) -> SuiteResult<Vec<OsString>> {
    if self_command.programs.iter().any(|known| known == name) {
        return Ok([self_command.words.clone(), vec![name.into()]].concat());
    }
    let asked = Path::new(name);
    let found = if asked.components().count() > 1 {
        Some(asked.to_path_buf()).filter(|path| runs(path))
    } else {
        beside(&self_command.words[0], name).or_else(|| on_path(name))
    };
    found.map(|path| vec![path.into_os_string()]).ok_or_else(|| {
        SuiteError::usage(format!(
            "the program '{name}' is not one of {}, does not lie beside {} and is not on PATH; install it, or leave its workload out \
             (--only)",
            self_command.programs.join(", "),
            Path::new(&self_command.words[0]).display()
        ))
    })
}

fn beside(executable: &OsStr, name: &str) -> Option<PathBuf> {
    let path = Path::new(executable).parent()?.join(name);
    runs(&path).then_some(path)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|path| runs(path))
}

fn runs(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[test]
fn own_programs_come_first_then_those_on_the_path() {
    let self_command = SelfCommand {
        words: vec!["/opt/x/gupfs".into(), "bench".into()],
        programs: vec!["mptio".into()],
    };
    let words = |name| find(name, &self_command).map(|words| words.join(OsStr::new(" ")));
    assert_eq!(words("mptio").unwrap(), "/opt/x/gupfs bench mptio");
    assert!(words("sh").unwrap().to_str().unwrap().ends_with("/sh"));
    assert_eq!(words("/bin/sh").unwrap(), "/bin/sh");
    assert!(words("no-such-program").is_err());
}
