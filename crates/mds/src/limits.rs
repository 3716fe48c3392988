//! Every bound of the metadata server with its reason.

use std::time::Duration;

/// Requests that a background task or a recovery has in flight at the OSTs: enough to keep a few disks busy, few enough that
/// clients' requests do not queue behind them.
pub const OST_CALLS: usize = 32;

/// Requests that a background task has in flight at one OST, where each OST has a limit of its own: as above, for the one or two
/// disks behind it.
pub const OST_CALLS_EACH: usize = 8;
const _: () = assert!(OST_CALLS_EACH <= OST_CALLS);

/// An OST that has not answered a background task for so long counts as silent: the task leaves what needs this OST for later and
/// goes on with the rest. A late reply still counts; a busy disk syncs a thousand objects in some seconds.
pub const OST_SILENT_AFTER: Duration = Duration::from_secs(5);
const _: () = assert!(OST_SILENT_AFTER.as_secs() * 4 <= DEADLINE.as_secs());

/// Least time between two rounds of the purge, unless enough objects for a job wait at an OST. A job syncs the log, the OST's
/// records and directories however few objects it removes: `rm -r` queues hundreds in this time, and no user notices that the space
/// becomes free that much later.
pub const PURGE_ROUND_EVERY: Duration = Duration::from_millis(100);

/// Records that one step of a scan reads: a longer step would block the index (DESIGN, "Work larger than one commit").
pub const SCAN_STEP: usize = 1_024;

/// Interval between two requests for the free space of the targets and of the metadata disk. A disk that fills at 2 GB/s loses 2
/// GB in one interval, which is why `RESERVE_MAX` is not smaller.
pub const SPACE_EVERY: Duration = Duration::from_secs(1);

/// How long the server waits for a target's reply about its space before it counts the space as unknown.
pub const SPACE_TIMEOUT: Duration = Duration::from_secs(5);

/// A target whose server has not reported for so long counts as silent: servers report every second, so five reports may
/// be late.
pub const TARGET_REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before a request is repeated that an object server refused as expired: the server may not have taken our reply to its
/// report yet.
pub const KEYS_RETRY: Duration = Duration::from_millis(50);

/// How long an OST may take to fence a session. After that the fence waits until the session's last capability expires instead.
pub const FENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before an OST that could not be reached is asked again to fence a session, while that capability is valid.
pub const FENCE_RETRY: Duration = Duration::from_millis(200);

/// How long a report waits until members on a restarted target are left out; its server then reports again.
pub const LEAVE_OUT_PATIENCE: Duration = Duration::from_millis(200);

/// Interests of one session of which none is removed. (A record takes some 40 bytes in memory and on disk.) Beyond, those without leases are
/// removed whenever there are twice as many as the session has leases for.
pub const INTERESTS_KEPT: usize = 8_192;

/// Locked files of one session that are recorded one by one. A session with more delays all lock requests if its host is lost together with
/// the owner's.
pub const LOCK_INTERESTS_MAX: usize = 4_096;
const _: () = assert!(LOCK_INTERESTS_MAX < INTERESTS_KEPT);

/// How long an object server that stops in order waits until sessions know it.
pub const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// The unit of the times in session capabilities: a later one than all issued so far is issued after this.
pub const CREDENTIAL_TICK: Duration = Duration::from_millis(1);

/// A conversion of a layout copies pieces of so many bytes, so many at a time.
pub const CONVERSION_PIECE: u64 = 1 << 20;
pub const CONVERSION_PIECES: u64 = 4;

/// Files that wait for their conversion, and how long a result is kept for a client that does not ask for it.
pub const CONVERSIONS_MAX: usize = 1024;
pub const CONVERSION_RESULT_KEPT: Duration = Duration::from_secs(60);

/// A copy that waits because of its rate asks so often whether it still goes on at this rate.
pub const COPY_ASKS_EVERY: Duration = Duration::from_millis(500);

/// Unless an administrator says otherwise, a rebalance ends when no volume's use differs more from the mean, in percent points. New files
/// prefer emptier OSTs, so less is not worth the copies.
pub const REBALANCE_WITHIN: u8 = 3;

/// How often a rebalance that waits looks whether it may go on.
pub const REBALANCE_EVERY: Duration = Duration::from_secs(2);

/// A rebalance waits so long for an OST that is not up; then it goes on without it. Servers report every second.
pub const REBALANCE_PATIENCE: Duration = Duration::from_secs(60);
const _: () = assert!(REBALANCE_PATIENCE.as_secs() > TARGET_REPORT_TIMEOUT.as_secs());

/// A plan of a rebalance counts what it has moved, and not what programs write: after so long it makes a new one.
pub const REBALANCE_PLAN_KEPT: Duration = Duration::from_secs(60);

/// The new plan waits until the former objects are removed, at most so long, and then for the next reports of free space.
pub const REBALANCE_SETTLE_MAX: Duration = Duration::from_secs(30);
pub const REBALANCE_REPORTS: Duration = Duration::from_secs(3);
const _: () = assert!(REBALANCE_REPORTS.as_secs() > SPACE_EVERY.as_secs());

/// The part of what is to move that one round over all files has to move, or the rebalance ends: it would take for ever.
pub const REBALANCE_LEAST_STEP: f64 = 0.01;

/// Characters that are recorded of the reason why a rebalance ended.
pub const REBALANCE_WHY_MAX: usize = 300;

/// How long a request for a conversion waits for its end. It is sent again.
pub const CONVERSION_WAIT: Duration = Duration::from_secs(1);

/// Pause of a background task before it sends a request again that an OST refused.
pub const RETRY: Duration = Duration::from_secs(2);

/// How long a request waits for any one thing (a commit, a sync, an OST) before it fails with an error that names this thing.
pub const DEADLINE: Duration = Duration::from_secs(60);
// A session that does not answer a revocation of leases ends before the change that waits for it fails.
const _: () = assert!(
    gupfs_proto::limits::SERVER_TERM.as_secs() + EXPIRY_CHECK_EVERY.as_secs() < DEADLINE.as_secs()
);

/// Interval between two rounds over the files with stale members.
pub const RESYNC_EVERY: Duration = Duration::from_secs(2);

/// Files that are resynced at once, and objects of one file. Each holds `COPIES_OF_REGIONS` regions in memory.
pub const RESYNC_FILES: usize = 4;
pub const RESYNC_OBJECTS: usize = 4;

/// Regions of an object that are copied at once: while one is read, another is written.
pub const COPIES_OF_REGIONS: usize = 2;

/// Requests for digests that a copy of an object has in flight at each of its two targets: neither waits for the other's last reply.
pub const DIGESTS_AT_ONCE: usize = 2;

/// Regions that a copy takes in one step where there is nothing to compare with, so that it meets the source's holes.
pub const REGIONS_WITHOUT_DIGEST: u64 = 64;

/// How long the last step of a resync, for which a writer waits, may take: as long as comparing and copying took before it, beside the writer.
pub const WRITER_HELD_MAX: Duration = Duration::from_secs(2);

/// How often the resync copies beside a writer until so little is left.
pub const COPIES_BESIDE_WRITER: u32 = 3;

/// How long a resync waits for a writer to give back its lease, and the writer for the resync.
pub const WRITER_PATIENCE: Duration = Duration::from_secs(5);

/// How long an OST may be down before its stale members are replaced, unless the administrator chose another time: longer than a restart of a
/// host takes, so that no such restart moves bytes.
pub const REBUILD_AFTER: Duration = Duration::from_secs(600);

/// All objects are verified once in so long, unless the administrator chose another time. A sector that decays stays unnoticed for as long at
/// the most.
pub const SCRUB_PERIOD: Duration = Duration::from_secs(30 * 86_400);

/// A scheduled scrub is not slower than this: where there is little to read, less is under way at a time.
pub const SCRUB_RATE_MIN: u64 = 4 << 20;

/// How often the server looks whose turn it is to be scrubbed.
pub const SCRUB_TURN_EVERY: Duration = Duration::from_secs(60);

/// How often the server asks the OSTs which damage readers have met, and how long it leaves a file alone that it could not repair.
pub const DAMAGE_ASK_EVERY: Duration = Duration::from_secs(10);
pub const DAMAGE_RETRY: Duration = Duration::from_secs(600);

/// Damaged objects that the server knows by name.
pub const DAMAGE_KEPT: usize = 4_096;

/// How often the server looks whether it has members on lost OSTs to replace.
pub const REPLACE_EVERY: Duration = Duration::from_secs(2);

/// Pause between two steps of a walk over all inodes for lost OSTs: ten million inodes take a few minutes, and most of this time is left to
/// requests.
pub const INODE_WALK_PAUSE: Duration = Duration::from_millis(10);

/// While files wait for a replacement, the next walk over all inodes begins after this many times the duration of the last one.
pub const INODE_WALK_REST: u32 = 10;

/// Inodes that the server examines for one request for the files with lost bytes: some tens of milliseconds of work.
pub const LOST_FILES_EXAMINED: usize = 8 * SCAN_STEP;

/// Files in one reply to such a request, and bytes of their paths.
pub const LOST_FILES_MAX: usize = 256;
pub const LOST_FILES_PATHS: usize = 256 << 10;
const _: () = assert!(
    (LOST_FILES_PATHS + LOST_PATH_MAX + LOST_FILES_MAX * 64) as u64
        <= gupfs_proto::limits::BODY_MAX.get()
);

/// The longest path that such a reply has: of a longer one the last names.
pub const LOST_PATH_MAX: usize = 64 << 10;

/// How often the objects of files that were closed without a sync are confirmed. By then the OST has synced objects that were
/// idle for five seconds, so mostly nothing is left to sync; and a file that is removed within the interval is never synced.
pub const CONFIRM_EVERY: Duration = Duration::from_secs(10);

/// Files confirmed in one step.
pub const CONFIRM_STEP: usize = 1_024;

/// How long a stop confirms before it leaves the rest to the next start.
pub const STOP_CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// How often one request may need more records before it is refused: each round fetches the records that the operation had not
/// seen, so a path of directories needs as many rounds as it has levels; PATH_MAX allows 2,048 of them.
pub const ROUNDS_MAX: u32 = 4_096;

/// Free space of the metadata disk that only removal may use: a share of the disk, between these two bounds. Below 64 MiB the
/// store could not allocate a log segment.
pub const RESERVE_SHARE: u64 = 100;
pub const RESERVE_MIN: u64 = 64 << 20;
pub const RESERVE_MAX: u64 = 512 << 20;
const _: () = assert!(RESERVE_MIN <= RESERVE_MAX);

/// How long `stop` waits for the requests in flight.
pub const STOP_WAIT: Duration = Duration::from_secs(10);

/// How long a stop that hands over waits for the requests in flight, and then for confirmations: programs wait meanwhile.
pub const HAND_OVER_WAIT: Duration = Duration::from_millis(300);

/// How long a stop waits until all sessions have given up their leases: a client answers at once. After a stop without the answer of
/// all, the next start waits for the sessions as after a crash.
pub const STOP_REVOKE_TIMEOUT: Duration = Duration::from_secs(2);
const _: () = assert!(STOP_REVOKE_TIMEOUT.as_secs() < STOP_WAIT.as_secs());

/// How long a connected session may take to answer a revocation of leases before the server ends it. A client answers from its memory, so
/// one that is alive answers long before its term would be over.
pub const REVOKE_ANSWER_MAX: Duration = gupfs_proto::limits::CLIENT_TERM;
pub const REVOKE_ANSWER_STEP: Duration = Duration::from_secs(1);
// A change that waits for it succeeds.
const _: () = assert!(
    REVOKE_ANSWER_MAX.as_secs()
        + EXPIRY_CHECK_EVERY.as_secs()
        + gupfs_proto::limits::SERVER_TERM.as_secs()
        + REVOKE_ANSWER_STEP.as_secs()
        < DEADLINE.as_secs()
);

/// Random bytes read from the kernel at a time: one call for 512 operations instead of one for each.
pub const ENTROPY_BYTES: usize = 4 << 10;

/// Removed files that the purge queue holds: about 150 bytes each. The purge finds further ones in the records later.
pub const PURGE_QUEUE_MAX: usize = 1 << 16;
const _: () = assert!(PURGE_QUEUE_MAX >= gupfs_proto::limits::BACKGROUND_BATCH);

/// Removed files in the queue of files about which sessions must be asked. The background task finds further ones in the records
/// later.
pub const REMOVED_FILES_MAX: usize = 1 << 16;
const _: () = assert!(REMOVED_FILES_MAX >= gupfs_proto::limits::BACKGROUND_BATCH);

/// Pause before a revoke is sent again to a session that replied that it released the lease and is still recorded as the lease
/// holder.
pub const REVOKE_RETRY: Duration = Duration::from_millis(10);

/// After so many revokes the server takes the file's state from its objects instead: a client replies to a revoke after
/// everything that it has in flight, so a session that still has the record does not know of the lease.
pub const REVOKE_TRIES: u32 = 20;

/// Sessions that an operation on a file with many writers calls at the same time.
pub const HOLDER_CALLS: usize = 256;

/// How often the server looks for sessions whose term is over: a small part of the term.
pub const EXPIRY_CHECK_EVERY: Duration = Duration::from_secs(1);

/// If the check for expired sessions runs so much late, the process or its machine was stopped (a debugger, a migrated virtual
/// machine, a laptop's lid), and the server did not hear what sessions sent meanwhile. A processor that is merely busy delays the
/// check less.
pub const STALL_MIN: Duration = Duration::from_secs(2);

/// Replay records after a start, over all clients, and their bytes: more than the changes of a second at full speed,
/// where a power loss can take the changes of 20 ms.
pub const REPLAY_RECORDS_MAX: usize = 1 << 20;
pub const REPLAY_BYTES_MAX: usize = 256 << 20;

/// Keys that one attempt at an operation reads from the index under the shard's lock, while such reads are quick.
pub const INLINE_READS: usize = 8;

/// A read is slow if it took longer than this: then it waited for a disk. A thread that waits for a processor may take nearly
/// as long...
pub const READ_SLOW: Duration = Duration::from_millis(1);

/// ... and after a slow one the server reads the index away from the reactor for this long: then its blocks are in memory again,
/// or the disk is as slow as it was.
pub const READ_OFFLOAD_FOR: Duration = Duration::from_millis(100);

/// So long after a drain was cancelled its leftovers are removed: no read by a layout from before lasts longer.
pub const SWEEP_AFTER_DRAIN: Duration = Duration::from_secs(2 * DEADLINE.as_secs());

/// Objects that the sweep examines in one step, and its pause between two steps: a million objects take a minute and a half in
/// the background.
pub const SWEEP_STEP: u32 = 1_024;
pub const SWEEP_PAUSE: Duration = Duration::from_millis(100);

/// New files of which the server remembers that no other session has opened them: the files of some seconds, in about a megabyte.
pub const NEW_FILES_MAX: usize = 1 << 14;

/// How long a start with --accept-loss waits for the object servers to report their targets: they report every second, and
/// reconnect within a few seconds after a broken connection.
pub const SURVEY_WAIT: Duration = Duration::from_secs(15);

/// How much longer it waits for targets that count what would be lost: they list the names of all objects, some millions.
pub const SURVEY_HOLDINGS: Duration = Duration::from_secs(120);

/// How often the start looks, after the survey, whether the surveyed targets serve.
pub const SURVEY_POLL: Duration = Duration::from_millis(20);

/// Owner epochs skipped above the newest that a target has seen. There are 2²⁰ with windows of generations, so not many are
/// skipped.
pub const EPOCHS_SKIPPED: u64 = 16;

/// Owner epochs skipped when targets did not report: these may have seen the epochs of some years of starts.
pub const EPOCHS_SKIPPED_UNHEARD: u64 = 4096;

/// Inode numbers skipped in each virtual shard when a loss is accepted, above those of all objects: files without objects and
/// directories had numbers that no target knows. There are 2⁴⁸.
pub const NUMBERS_SKIPPED: u64 = 1 << 32;

/// Session numbers skipped when a loss is accepted: object servers remember for a while which sessions ended.
pub const SESSIONS_SKIPPED: u64 = 1 << 40;
