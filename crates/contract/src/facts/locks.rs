//! Locks that the server has: how it hears that they go.

use super::{CACHED, FILE, one_file};
use crate::fact::{Otherwise, Tried, is};
use crate::linux::{Flags, How, Linux, OpenFile, Tree};

/// By an unlock before it, or by what RELEASE says.
pub async fn a_flock_is_given_back_at_the_release_of_its_file<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::Read).await?;
    file.flock().await?;
    probe.asked();
    let gate = probe.hold("release");
    file.close().await;
    gate.reached(1).await?;
    let asked = probe.asked();
    gate.let_go(1);
    let by_release = format!("release {FILE} ReleaseFlags(FLOCK_UNLOCK)");
    let before = format!("setlk {FILE} Unlock");
    let given_back = asked
        .iter()
        .any(|what| *what == by_release || *what == before);
    is("given back", given_back, true)
}

/// No lock is unlocked then, for the kernel has no list of them: FLUSH names the owner. It is not asked of a file opened with
/// NOFLUSH.
pub async fn a_close_tells_whose_records_go<L: Linux>(linux: &L) -> Tried {
    let probe = one_file(CACHED);
    let tree = linux.mount(&probe, Flags::usual()).await?;
    let file = tree.open("file", How::ReadWrite).await?;
    probe.asked();
    file.lock().await?;
    let locked = probe.asked();
    let begin = format!("setlk {FILE} Write by ");
    let owner = locked.iter().find_map(|what| what.strip_prefix(&begin));
    let Some(owner) = owner else {
        return Err(Otherwise::Differs(format!("asked for a lock: {locked:?}")));
    };
    let gate = probe.hold("release");
    file.close().await;
    gate.reached(1).await?;
    let asked = probe.asked();
    gate.let_go(1);
    let flush = format!("flush {FILE} by {owner}");
    let unlock = format!("setlk {FILE} Unlock by {owner}");
    let told = asked.contains(&flush) || asked.contains(&unlock);
    is("told whose records go", told, true)
}
