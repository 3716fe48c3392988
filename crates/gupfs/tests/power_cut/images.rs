//! The disks: an XFS image that holds an ext4 image that holds the store.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command to its end.
pub fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{program} {}: {}\n{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}

fn must(program: &str, args: &[&str]) {
    if let Err(error) = run(program, args) {
        panic!("{error}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

/// Everything one test needs; taken away when dropped.
pub struct Images {
    /// Unmounted in this order: the inner ones first.
    inner: Option<Mounted>,
    outer: Mounted,
    dir: tempfile::TempDir,
}

impl Images {
    pub fn make() -> Images {
        let dir = tempfile::Builder::new()
            .prefix("gupfs-power-")
            .tempdir()
            .expect("a temporary directory");
        let image = dir.path().join("outer.img");
        let file = std::fs::File::create(&image).expect("an image file");
        file.set_len(12 << 30).expect("a sparse image");
        drop(file);
        must("mkfs.xfs", &["-q", "-m", "reflink=1", text(&image)]);
        let outer = Mounted::loop_mount(&image, &dir.path().join("outer"));
        let inner_image = outer.at.join("inner.img");
        std::fs::File::create(&inner_image)
            .and_then(|file| file.set_len(4 << 30))
            .expect("an inner image");
        must(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                text(&inner_image),
            ],
        );
        let inner = Mounted::loop_mount(&inner_image, &dir.path().join("inner"));
        Images {
            inner: Some(inner),
            outer,
            dir,
        }
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("inner/store")
    }

    /// An empty directory to mount gupfs at.
    #[allow(dead_code)]
    pub fn mount_point(&self, name: &str) -> PathBuf {
        let at = self.dir.path().join(name);
        std::fs::create_dir_all(&at).expect("a mount point");
        at
    }

    /// The disk loses everything that was not synced; no process may use it meanwhile.
    #[allow(dead_code)] // this file serves two tests
    pub fn lose(&mut self) {
        let (image, crash) = (
            self.outer.at.join("inner.img"),
            self.outer.at.join("crash.img"),
        );
        must("cp", &["--reflink=always", text(&image), text(&crash)]);
        // The image is removed with everything that this writes.
        self.inner = None;
        std::fs::rename(&crash, &image).expect("the image as it was");
        self.inner = Some(Mounted::loop_mount(&image, &self.dir.path().join("inner")));
    }

    /// Mounts a copy of the current state of the disk.
    #[allow(dead_code)]
    pub fn cut(&self) -> After {
        let image = self.outer.at.join("crash.img");
        must(
            "cp",
            &[
                "--reflink=always",
                text(&self.outer.at.join("inner.img")),
                text(&image),
            ],
        );
        After {
            mounted: Some(Mounted::loop_mount(&image, &self.dir.path().join("crash"))),
            image,
        }
    }
}

/// A disk after the cut.
#[allow(dead_code)]
pub struct After {
    mounted: Option<Mounted>,
    image: PathBuf,
}

#[allow(dead_code)]
impl After {
    pub fn store(&self) -> PathBuf {
        self.mounted
            .as_ref()
            .expect("mounted until dropped")
            .at
            .join("store")
    }
}

impl Drop for After {
    fn drop(&mut self) {
        self.mounted = None;
        // The next power loss makes a new one, and fails if this one is left.
        let _ = std::fs::remove_file(&self.image);
    }
}

struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn loop_mount(image: &Path, at: &Path) -> Mounted {
        std::fs::create_dir_all(at).expect("a mount point");
        must("mount", &["-o", "loop", text(image), text(at)]);
        Mounted { at: at.to_owned() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if run("umount", &[text(&self.at)]).is_err() {
            // Something is still open after a failed test; nothing may stay behind all the same.
            let _ = run("umount", &["-l", text(&self.at)]);
        }
    }
}
