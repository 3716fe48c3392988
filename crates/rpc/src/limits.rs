//! Every bound of a connection with its reason.

use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use std::time::Duration;

/// Who connects speaks first, and at once: nobody waits for a silent stranger longer than a lost packet takes.
pub const FIRST_WORD: Duration = Duration::from_secs(1);

/// A handshake that is not over by then is given up: both sides answer at once when they live.
pub const HANDSHAKE: Duration = Duration::from_secs(5);
const _: () = assert!(FIRST_WORD.as_millis() < HANDSHAKE.as_millis());
const _: () = assert!(HANDSHAKE.as_millis() < CONNECT.as_millis());

/// Longest body before the other side has proved who it is.
pub const HANDSHAKE_BODY: u32 = 4 << 10;

/// A stranger keeps its place for so long at least, whoever comes after it: a crowd of mounts that comes back after a restart
/// must not push itself out. 256 places make 5,000 connections a second of it.
pub const PLACE_LEAST: Duration = Duration::from_millis(50);
const _: () = assert!(PLACE_LEAST.as_millis() * 4 <= FIRST_WORD.as_millis());

/// Addresses of which is remembered that they had the key: some tens of bytes each.
pub const KNOWN_ORIGINS: usize = 4_096;

/// The log speaks of an address that is turned away so often...
pub const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// ... and of so many addresses; the others are one.
pub const COMPLAIN_ORIGINS: usize = 256;

/// How long connecting may take, handshake included, before it is tried again.
pub const CONNECT: Duration = Duration::from_secs(15);

/// Pauses between attempts to connect: they double from the first to the last, so that a server that starts again is found
/// soon, and one that is away is not pestered.
pub const RETRY_FIRST: Duration = Duration::from_millis(20);
pub const RETRY_LAST: Duration = Duration::from_secs(1);

/// A quiet connection is asked for a sign of life so often...
pub const PING: Duration = Duration::from_secs(2);

/// ... and is given up when nothing at all came for so long: a host that vanished sends no end.
pub const SILENCE: Duration = Duration::from_secs(8);
const _: () = assert!(SILENCE.as_millis() >= 3 * PING.as_millis());

/// A frame that is not whole so long after its head came is given up with its connection, though bytes come: the longest
/// takes so long over 1.5 Mbit/s, and what was announced for it is held meanwhile.
pub const FRAME: Duration = Duration::from_secs(30);
const _: () = assert!(FRAME.as_millis() > SILENCE.as_millis());

/// How often deadlines and pings are looked at.
pub const TICK: Duration = Duration::from_millis(250);

/// Questions of one connection that a server works on at once; what comes beyond is answered "busy", with a hint when to ask
/// again. A client has 64 lanes, and reads beside them.
pub const QUESTIONS_OF_ONE: usize = 512;

/// Bytes of one connection's frames that a server holds at once, counted from the head that announces them.
pub const PAYLOAD_OF_ONE: usize = 64 << 20;
const _: () = assert!(PAYLOAD_OF_ONE as u64 >= 8 * (BODY_MAX.0 + PAYLOAD_MAX.0));

/// Questions of all connections that a server works on at once. What comes beyond is answered "busy", with a hint when to
/// ask again: a thousand clients find their memory bounded, not their calls lost.
pub const QUESTIONS_OF_ALL: usize = 8_192;

/// And bytes of their frames.
pub const PAYLOAD_OF_ALL: usize = 1 << 30;
const _: () = assert!(PAYLOAD_OF_ONE < PAYLOAD_OF_ALL && QUESTIONS_OF_ONE < QUESTIONS_OF_ALL);

/// Bytes of all connections from one address: whatever one host announces, half of the room is left for others.
pub const PAYLOAD_OF_HOST: usize = 512 << 20;
const _: () = assert!(PAYLOAD_OF_ONE < PAYLOAD_OF_HOST && 2 * PAYLOAD_OF_HOST <= PAYLOAD_OF_ALL);

/// Frames up to here are taken whatever others hold, so that metadata and reads go on beside a crowd of large writes. Their
/// number is bounded: by the questions under way, and by one unfinished frame a connection.
pub const SMALL: usize = 16 << 10;
const _: () = assert!(QUESTIONS_OF_ALL * SMALL <= PAYLOAD_OF_ALL / 4);

/// The hint that goes with "busy".
pub const BUSY_HINT: Duration = Duration::from_millis(50);

/// Answers that wait for a slow reader, in bytes: above it his questions are answered "busy", and far above it he is left.
pub const ANSWERS_WAITING: usize = 32 << 20;

/// How long the end of a former connection's work is waited for before a new one is let in.
pub const DRAIN: Duration = Duration::from_secs(10);
const _: () = assert!(DRAIN.as_millis() < CONNECT.as_millis());

/// Room that a reader asks the socket to fill at least: many small frames come with one call.
pub const READ_AT_LEAST: usize = 64 << 10;

/// With less room than this left, more is made before the next read.
pub const READ_LITTLE: usize = 4 << 10;

/// How long a refusal may take to be sent before the connection ends without it.
pub const PARTING: Duration = Duration::from_secs(2);
