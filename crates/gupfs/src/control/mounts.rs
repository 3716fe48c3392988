//! Where the process of a mount without a store on this machine can be asked.

use crate::exit::{OrTrouble, Outcome};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of a mount point's control socket: below /run/gupfs for root, below the user's own for others.
pub fn run_of_mount(point: &Path) -> PathBuf {
    let user = rustix::process::geteuid();
    let base = match (user.is_root(), std::env::var_os("XDG_RUNTIME_DIR")) {
        (true, _) => PathBuf::from("/run/gupfs"),
        (false, Some(own)) => PathBuf::from(own).join("gupfs"),
        (false, None) => PathBuf::from(format!("/tmp/gupfs-{}", user.as_raw())),
    };
    // One name for each path: what separates its parts cannot occur in them otherwise.
    let name = point
        .to_string_lossy()
        .replace('%', "%25")
        .replace('/', "%2F");
    base.join(name)
}

pub fn make_run_of_mount(point: &Path) -> Outcome<PathBuf> {
    let run = run_of_mount(point);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&run)
        .or_trouble(|| format!("cannot make the directory '{}'", run.display()))?;
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mount_points_never_share_a_directory() {
        let names: Vec<PathBuf> = ["/mnt/a/b", "/mnt/a%2Fb", "/mnt/a", "/mnt/a%b"]
            .iter()
            .map(|point| run_of_mount(Path::new(point)))
            .collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name:?}");
        }
    }
}
