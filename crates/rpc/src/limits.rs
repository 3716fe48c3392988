//! Every limit of a connection with its reason.

use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use std::time::Duration;

/// The side that connects sends the first frame at once. The server waits for it no longer than the resend of a lost packet
/// takes.
pub const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(1);

/// The server gives up a handshake that has not finished by then: a live peer replies at once.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const _: () = assert!(FIRST_FRAME_TIMEOUT.as_millis() < HANDSHAKE_TIMEOUT.as_millis());
const _: () = assert!(HANDSHAKE_TIMEOUT.as_millis() < CONNECT_TIMEOUT.as_millis());

/// Largest body before the other side has proved its key.
pub const HANDSHAKE_BODY_MAX: u32 = 4 << 10;

/// An unauthenticated connection is never evicted before this time: many mounts that reconnect after a server restart must not
/// evict each other. With 256 unauthenticated connections a server accepts 5,000 connections a second.
pub const UNAUTHENTICATED_MIN: Duration = Duration::from_millis(50);
const _: () = assert!(UNAUTHENTICATED_MIN.as_millis() * 4 <= FIRST_FRAME_TIMEOUT.as_millis());

/// How many addresses the server remembers as having proved a key: some tens of bytes each.
pub const KNOWN_ORIGINS_MAX: usize = 4_096;

/// The log gets one line per rejected address in this interval...
pub const REJECTION_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// ... for this many addresses; all further addresses share one line.
pub const REJECTION_LOG_ORIGINS_MAX: usize = 256;

/// How long one attempt to connect may take, handshake included, before the client tries again.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Pauses between attempts to connect: they double from the minimum to the maximum, so that a client finds a restarted server
/// soon and does not flood a server that stays down.
pub const RETRY_MIN: Duration = Duration::from_millis(20);
pub const RETRY_MAX: Duration = Duration::from_secs(1);

/// Largest number of addresses of one server, and the length of one in bytes: a server has three or five copies. A client connects to all
/// of them at the same time.
pub const SERVER_ADDRESSES_MAX: usize = 16;
pub const SERVER_ADDRESS_MAX: usize = 256;

/// The largest pause between attempts at one of several addresses: any of the copies may become the owner at any time, and programs
/// wait until the client has found it.
pub const COPIES_RETRY_MAX: Duration = Duration::from_millis(250);
const _: () = assert!(RETRY_MIN.as_millis() < COPIES_RETRY_MAX.as_millis());

/// How long connecting to one of several addresses may take until the server has proved its key. A host that has crashed does not
/// reply at all, so nothing is gained by waiting longer than for the resend of a lost packet.
pub const CHALLENGE_TIMEOUT: Duration = Duration::from_secs(2);
const _: () = assert!(CHALLENGE_TIMEOUT.as_millis() > FIRST_FRAME_TIMEOUT.as_millis());

/// How long the client then waits for the verdict: the server is alive, and a standby holds the connection in the hope of becoming
/// the owner.
pub const VERDICT_TIMEOUT: Duration = Duration::from_secs(5);
const _: () = assert!(
    CHALLENGE_TIMEOUT.as_millis() + VERDICT_TIMEOUT.as_millis() < CONNECT_TIMEOUT.as_millis()
);

/// How long a server holds a connection at most before it admits or rejects it. The rejection should arrive before the client gives up.
pub const ADMISSION_TIMEOUT: Duration = Duration::from_secs(4);
const _: () = assert!(ADMISSION_TIMEOUT.as_millis() < VERDICT_TIMEOUT.as_millis());
const _: () = assert!(ADMISSION_TIMEOUT.as_millis() < SILENCE_TIMEOUT.as_millis());

/// Interval of pings on an idle connection...
pub const PING_INTERVAL: Duration = Duration::from_secs(2);

/// ... and the time without any received byte after which a side closes the connection: a host that vanished sends no FIN.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(8);
const _: () = assert!(SILENCE_TIMEOUT.as_millis() >= 3 * PING_INTERVAL.as_millis());

/// The same on the client's side of a connection to a server with several addresses: another copy takes over within seconds, so the
/// client looks for it sooner. A live server replies to each ping, and only a pause of a second in its process or in the network costs
/// a needless reconnect.
pub const COPIES_PING_INTERVAL: Duration = Duration::from_millis(500);
pub const COPIES_SILENCE_TIMEOUT: Duration = Duration::from_millis(1_500);
const _: () = assert!(COPIES_SILENCE_TIMEOUT.as_millis() >= 3 * COPIES_PING_INTERVAL.as_millis());

/// A side closes the connection when a frame is incomplete this long after its head arrived, even if bytes still arrive: the
/// largest frame takes this long over 1.5 Mbit/s, and the memory that its head reserved stays reserved meanwhile.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
const _: () = assert!(FRAME_TIMEOUT.as_millis() > SILENCE_TIMEOUT.as_millis());

/// How often the timers check deadlines and pings.
pub const TIMER_TICK: Duration = Duration::from_millis(250);
const _: () = assert!(COPIES_PING_INTERVAL.as_millis() >= 2 * TIMER_TICK.as_millis());

/// Concurrent requests of one connection. The server replies "busy" to each further request, with a hint when to resend it. A
/// client has 64 slots, and reads that need no slot.
pub const REQUESTS_PER_CONNECTION_MAX: usize = 512;

/// Bytes of one connection's frames that a server holds at once. The bytes of a frame count from the arrival of its head.
pub const BYTES_PER_CONNECTION_MAX: usize = 64 << 20;
const _: () = assert!(BYTES_PER_CONNECTION_MAX as u64 >= 8 * (BODY_MAX.0 + PAYLOAD_MAX.0));

/// Concurrent requests of all connections. The server replies "busy" to each further request, with a hint when to resend it: a
/// thousand clients cannot exhaust the server's memory, and lose no call.
pub const REQUESTS_MAX: usize = 8_192;

/// Bytes of the frames of all connections that a server holds at once.
pub const BYTES_MAX: usize = 1 << 30;
const _: () =
    assert!(BYTES_PER_CONNECTION_MAX < BYTES_MAX && REQUESTS_PER_CONNECTION_MAX < REQUESTS_MAX);

/// Bytes of all connections from one address: one host can reserve at most half of `BYTES_MAX`.
pub const BYTES_PER_HOST_MAX: usize = 512 << 20;
const _: () =
    assert!(BYTES_PER_CONNECTION_MAX < BYTES_PER_HOST_MAX && 2 * BYTES_PER_HOST_MAX <= BYTES_MAX);

/// The server accepts frames up to this size regardless of reserved bytes, so that metadata requests and reads proceed beside
/// many large writes. Their number is limited by the concurrent requests and by one unfinished frame per connection.
pub const SMALL_FRAME_MAX: usize = 16 << 10;
const _: () = assert!(REQUESTS_MAX * SMALL_FRAME_MAX <= BYTES_MAX / 4);

/// The delay that a "busy" reply asks for before the request is resent.
pub const BUSY_HINT: Duration = Duration::from_millis(50);

/// Bytes of replies queued for a slow peer: above this the server replies "busy" to its requests, and above twice this it closes
/// the connection.
pub const QUEUED_REPLIES_MAX: usize = 32 << 20;

/// How long a new fenced connection waits for the requests of the previous connection to end.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const _: () = assert!(DRAIN_TIMEOUT.as_millis() < CONNECT_TIMEOUT.as_millis());

/// Smallest buffer that a reader offers to one socket read: one call returns many small frames.
pub const READ_BUFFER_MIN: usize = 64 << 10;

/// The reader extends its buffer before the next read when less than this is free.
pub const READ_BUFFER_LOW: usize = 4 << 10;

/// How long the server tries to send a rejection before it closes the connection without it.
pub const REJECTION_SEND_TIMEOUT: Duration = Duration::from_secs(2);
