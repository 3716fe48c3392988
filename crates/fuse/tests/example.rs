//! Tests the example of the README.

#[path = "../examples/note.rs"]
mod note;

use gupfs_skips::{Need, skip};
use std::fs;
use std::path::Path;

#[test]
fn a_note_is_written_and_read() {
    if !Path::new("/dev/fuse").exists() {
        skip(Need::Fuse, "there is no /dev/fuse on this host");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let session = note::serve(dir.path()).unwrap();
    let path = dir.path().join("note");
    assert_eq!(fs::read(&path).unwrap(), b"");
    fs::write(&path, "hello").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
    fs::write(&path, "bye").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "bye");
    let names = fs::read_dir(dir.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["note"]);
    assert!(fs::metadata(dir.path().join("other")).is_err());
    session.unmount().unwrap();
    session.wait();
}
