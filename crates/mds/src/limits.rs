//! Every bound of the metadata server with its reason.

use std::time::Duration;

/// Questions a chore or a recovery has open at the OSTs at once: enough to keep a few disks busy, few enough that a
/// client's own questions do not queue behind them.
pub const OST_CALLS: usize = 32;

/// Questions that a chore has open at one OST, where each OST has its own: as above, for the disk or two behind it.
pub const OST_CALLS_EACH: usize = 8;
const _: () = assert!(OST_CALLS_EACH <= OST_CALLS);

/// After so long without an answer to a chore an OST counts as silent: what needs it is left for later, and nothing else waits for that. An
/// answer may come later, and counts then; a busy disk syncs a thousand objects in some seconds.
pub const SILENT: Duration = Duration::from_secs(5);
const _: () = assert!(SILENT.as_secs() * 4 <= DEADLINE.as_secs());

/// Records one step of a scan reads: the index is not held up longer (DESIGN, "Work larger than one commit").
pub const SCAN_STEP: usize = 1_024;

/// How often targets and the metadata disk are asked for their space. A disk filled at 2 GB/s loses 2 GB between two
/// questions, which is why `RESERVE_MAX` is not smaller.
pub const SPACE_EVERY: Duration = Duration::from_secs(1);

/// How long an answer about space is believed when the next one does not come.
pub const SPACE_ANSWER: Duration = Duration::from_secs(5);

/// How long a target is believed to be there when its server says nothing: five of its words, which come every second, may
/// be late.
pub const HEARD_OF: Duration = Duration::from_secs(5);

/// How long an object server may need to take our answer to its word, before it is asked again what it did not believe.
pub const NOT_HEARD_YET: Duration = Duration::from_millis(50);

/// How long an OST may take to say that it has fenced a session, before the session's last pass is waited out instead.
pub const FENCE_ANSWER: Duration = Duration::from_secs(5);

/// Before an OST that could not be told is tried again, while that pass counts.
pub const FENCE_AGAIN: Duration = Duration::from_millis(200);

/// How long a chore waits before it asks an OST again that gave an error.
pub const RETRY: Duration = Duration::from_secs(2);

/// How long a request waits for any one thing (a commit, a sync, an OST) before it is refused with what it waited for.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How often objects of files that were closed without a sync are confirmed. An OST has synced what rested for five seconds
/// by then, so that mostly nothing is left to be synced; and a file that is removed within it is never synced.
pub const CONFIRM_EVERY: Duration = Duration::from_secs(10);

/// Files confirmed in one go.
pub const CONFIRM_STEP: usize = 1_024;

/// How long a stop confirms before it leaves the rest to the next start.
pub const STOP_CONFIRMS: Duration = Duration::from_secs(30);

/// How often one request may ask for more records before it is refused: each round fetches what the operation had not
/// seen, so a path of directories needs as many rounds as it has levels; PATH_MAX allows 2,048 of them.
pub const ROUNDS_MAX: u32 = 4_096;

/// Free space of the metadata disk that only removal may use: a share of the disk, between these two. Below 64 MiB a
/// log segment could not be allocated.
pub const RESERVE_SHARE: u64 = 100;
pub const RESERVE_MIN: u64 = 64 << 20;
pub const RESERVE_MAX: u64 = 512 << 20;
const _: () = assert!(RESERVE_MIN <= RESERVE_MAX);

/// How long `stop` waits for the requests under way.
pub const STOP_WAIT: Duration = Duration::from_secs(10);

/// Bytes of chance taken from the kernel at a time: one call for 512 operations instead of one for each.
pub const ENTROPY_BYTES: usize = 4 << 10;

/// Removed files whose objects the purge knows without reading records: about 150 bytes each. What is more is found again
/// in the records.
pub const PURGES_KNOWN: usize = 1 << 16;
const _: () = assert!(PURGES_KNOWN >= gupfs_proto::limits::CHORE_BATCH);

/// Removed files that are known to wait for those who may have them open, without reading records; as with purges.
pub const REMOVALS_KNOWN: usize = 1 << 16;
const _: () = assert!(REMOVALS_KNOWN >= gupfs_proto::limits::CHORE_BATCH);

/// How long a session is left in peace that has said that it gave a file back, and is recorded as its holder still.
pub const GIVEN_BACK_AGAIN: Duration = Duration::from_millis(10);

/// After so many times the file's objects are asked instead: its holder answers when all that it has under way is over, so it
/// knows of nothing to give back.
pub const GIVEN_BACK_TRIES: u32 = 20;

/// How often it is looked for sessions that were not heard of: a small part of their term.
pub const TERMS_EVERY: Duration = Duration::from_secs(1);

/// Looking so much later than it wanted to, the server was stopped, or its machine was (a debugger, a virtual machine that was
/// moved, a laptop's lid): what sessions said meanwhile was not heard. A processor that is merely busy is not that late.
pub const FROZEN: Duration = Duration::from_secs(2);

/// Changes said again after a start, over all clients, and their bytes: a second's worth of changes at full speed and more,
/// where 20 ms of them can be lost.
pub const KEPT_MOST: usize = 1 << 20;
pub const KEPT_BYTES: usize = 256 << 20;

/// Keys that one try at an operation reads from the index under the shard's lock, if such reads have been quick.
pub const READS_HERE: usize = 8;

/// Quick is what no disk had to be waited for; a thread that had to wait for its turn on a processor may take nearly as
/// long...
pub const READ_SLOW: Duration = Duration::from_millis(1);

/// ... and after a slow one the index is asked away from the reactor for this long: then its blocks are in memory again,
/// or the disk is as slow as it was.
pub const READ_AWAY: Duration = Duration::from_millis(100);

/// Objects that the sweep looks at in one go, and its pause between: a million objects take a minute and a half in the
/// background.
pub const SWEEP_STEP: u32 = 1_024;
pub const SWEEP_PAUSE: Duration = Duration::from_millis(100);

/// Newly made files of which is known that no other session has opened them: those of some seconds, in about a megabyte.
pub const NEWBORN_MAX: usize = 1 << 14;

/// How long a start that accepts a loss waits until object servers have told of their targets: they report every second, and a
/// connection that was broken is tried again within a few.
pub const SURVEY_WAIT: Duration = Duration::from_secs(15);

/// And how much longer for those that count what would be lost: a look at the names of all objects, some millions.
pub const SURVEY_HOLDINGS: Duration = Duration::from_secs(120);

/// How often it looks, after the survey, whether those that were heard serve.
pub const SURVEYED_LOOK: Duration = Duration::from_millis(20);

/// Owner epochs left out above the newest that a target has heard of. There are 2²⁰ with windows of generations, so not many.
pub const EPOCHS_SKIPPED: u64 = 16;

/// And when targets were not heard: the starts of some years that they may have heard of.
pub const EPOCHS_SKIPPED_UNHEARD: u64 = 4096;

/// Inode numbers left out in each virtual shard when a loss is accepted, above those of all objects: files without objects and
/// directories had numbers that nobody can tell of. There are 2⁴⁸.
pub const NUMBERS_SKIPPED: u64 = 1 << 32;

/// Session numbers left out then: object servers remember for a while which sessions ended.
pub const SESSIONS_SKIPPED: u64 = 1 << 40;
