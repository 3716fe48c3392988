//! Writes the inputs that cargo-fuzz begins with: seeds DIR.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "corpus".into()));
    for (program, name, bytes) in gupfs_fuzz::seeds() {
        let dir = dir.join(program);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(name), bytes)?;
    }
    Ok(())
}
