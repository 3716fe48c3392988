//! A lane without a kernel: one message in, its answer out, and whether that is one that the kernel would take. For tests and
//! fuzzing.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Waker};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::{Desk, Kit, Lane, LaneCounts, Spawner};
use crate::buffer::Pool;
use crate::limits::{IN_HEADER, OUT_HEADER, PAYLOAD_MIN};
use crate::request::{Dialect, Operation, Request};
use crate::transport::Device;
use crate::transport::ring::{HEADERS, Loose};
use crate::waits::Waits;
use crate::wire::{Header, Opcode};
use crate::{Errno, FileSystem};

/// A file system behind both ways of messages.
pub struct Door<F> {
    lane: Arc<Lane<F>>,
    /// The other end of what the lane takes for its device.
    kernel: OwnedFd,
    place: Loose,
}

/// What must come back for a message.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    Error(Errno),
    /// Whatever the file system says, in so many bytes.
    Within(usize),
}

fn due(message: &[u8], dialect: &Dialect) -> Due {
    let Ok(header) = Header::from_wire(message) else {
        return Due::Nothing;
    };
    if Opcode::from_raw(header.opcode).is_some_and(Opcode::has_no_answer) {
        return Due::Nothing;
    }
    match Request::from_wire(&header, message, dialect) {
        Err(_) => Due::Error(Errno::EIO),
        Ok(request) => match request.operation {
            Operation::Unsupported(_) => Due::Error(Errno::ENOSYS),
            operation => Due::Within(operation.answer_room()),
        },
    }
}

/// The largest number that the kernel takes for an error.
const ERRNO_MAX: i32 = 511;

/// As the kernel looks at an answer; returns its error number.
fn taken(answer: &[u8], unique: u64) -> i32 {
    let word = |at: usize| u32::from_ne_bytes(answer[at..][..4].try_into().unwrap());
    assert_eq!(word(0) as usize, answer.len(), "an answer's length");
    assert_eq!(answer[8..OUT_HEADER], unique.to_ne_bytes(), "whose it is");
    let error = -(word(4) as i32);
    assert!((0..=ERRNO_MAX).contains(&error), "error {error}");
    assert!(
        error == 0 || answer.len() == OUT_HEADER,
        "an error has no body"
    );
    error
}

fn unique(message: &[u8]) -> u64 {
    Header::from_wire(message).map_or(0, |header| header.unique.0)
}

impl<F: FileSystem> Door<F> {
    pub fn new(fs: F, setxattr_ext: bool) -> io::Result<Door<F>> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let desk = Desk {
            device: Arc::new(Device::of(ours)),
            kit: Arc::new(Kit {
                pool: Arc::new(Pool::new(PAYLOAD_MIN)),
                waits: Arc::new(Waits::new(None)),
            }),
            dialect: Dialect { setxattr_ext },
            counts: Arc::new(LaneCounts::default()),
        };
        let spawner: Spawner = Arc::new(|mut task| {
            let mut nobody = Context::from_waker(Waker::noop());
            while task.as_mut().poll(&mut nobody).is_pending() {}
        });
        let lane = Lane {
            desk: Arc::new(desk),
            fs: Arc::new(fs),
            spawner,
        };
        Ok(Door {
            lane: Arc::new(lane),
            kernel,
            place: Loose::new(PAYLOAD_MIN)?,
        })
    }

    /// What a reader of the device does with this message. Panics if the kernel would not be content.
    pub fn by_device(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = self.lane.desk.kit.pool.take();
        buffer.landing()[..message.len()].copy_from_slice(message);
        let buffer = self.lane.receive(buffer, message.len());
        self.lane.desk.kit.pool.give(buffer);
        let answer = self.receive();
        assert_eq!(self.receive(), None, "a second answer");
        let error = answer.as_ref().map(|bytes| taken(bytes, unique(message)));
        let body = answer.as_ref().map_or(0, |bytes| bytes.len() - OUT_HEADER);
        match (due(message, &self.lane.desk.dialect), error) {
            (Due::Nothing, None) => {}
            (Due::Error(errno), Some(error)) => assert_eq!(error, errno.raw()),
            (Due::Within(room), Some(_)) => assert!(body <= room),
            (due, error) => panic!("due was {due:?}, and error {error:?} came"),
        }
        answer
    }

    /// What a ring's thread does when the kernel has put this into a place. Panics if the kernel would not be content.
    /// Returns the message, empty if it cannot be read, and the answer.
    pub fn by_ring(
        &self,
        headers: &[u8; HEADERS],
        payload: &[u8],
        crowded: bool,
    ) -> (Vec<u8>, Vec<u8>) {
        let incoming = self.place.arrive(headers, payload, crowded);
        let message = incoming.message().to_vec();
        let named = match message.len() < IN_HEADER {
            true => incoming.unique().0,
            false => unique(&message),
        };
        self.lane.receive_from_ring(incoming);
        let answer = self.place.answer().expect("a place is always given back");
        let (error, body) = (taken(&answer, named), answer.len() - OUT_HEADER);
        match due(&message, &self.lane.desk.dialect) {
            _ if message.is_empty() => assert_eq!(error, Errno::EIO.raw()),
            Due::Nothing => assert_eq!(body, 0),
            Due::Error(errno) => assert_eq!(error, errno.raw()),
            Due::Within(room) => assert!(body <= room),
        }
        (message, answer)
    }

    /// The largest payload of `by_ring`, and nearly that of `by_device`.
    pub fn capacity(&self) -> usize {
        self.place.capacity()
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let mut answer = vec![0; 2 * PAYLOAD_MIN];
        match recv(&self.kernel, &mut answer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                answer.truncate(length);
                Some(answer)
            }
            Err(rustix::io::Errno::AGAIN) => None,
            Err(errno) => panic!("the socket that stands for the device failed: {errno}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::request::samples;
    use crate::{Call, op};

    struct Nothing;
    impl FileSystem for Nothing {}

    /// Tells what it was given.
    #[derive(Default)]
    struct Length(Arc<Mutex<Vec<u8>>>);
    impl FileSystem for Length {
        async fn write(&self, _: Call, op: op::Write) -> crate::Result<u32> {
            Ok(op.data.len() as u32)
        }

        async fn retrieved(&self, _: Call, op: op::Retrieved) {
            *self.0.lock().unwrap() = op.data.to_vec();
        }
    }

    #[test]
    fn retrieved_bytes_are_found_wherever_their_head_lies() {
        let fs = Length::default();
        let retrieved = fs.0.clone();
        let door = Door::new(fs, true).unwrap();
        let is_it = |message: &Vec<u8>| message[4] == Opcode::NotifyReply as u8;
        let message = samples::messages().into_iter().find(is_it).unwrap();
        for fixed in [0, 8, 40] {
            let (headers, payload) = samples::in_place(&message, fixed);
            door.by_ring(&headers, &payload, false);
            assert_eq!(std::mem::take(&mut *retrieved.lock().unwrap()), b"data");
        }
    }

    #[test]
    fn a_payload_that_does_not_begin_on_its_page_is_refused() {
        let door = Door::new(Length::default(), true).unwrap();
        let mut messages = samples::messages().into_iter();
        let write = |message: &Vec<u8>| message[4] == Opcode::Write as u8;
        let write = messages.find(write).unwrap();
        for (fixed, error) in [(40, 0), (0, libc::EIO), (39, libc::EIO), (44, libc::EIO)] {
            let (headers, payload) = samples::in_place(&write, fixed);
            let (_, answer) = door.by_ring(&headers, &payload, false);
            assert_eq!(answer[4..8], (-error).to_ne_bytes(), "{fixed}");
        }
    }

    #[test]
    fn a_request_of_every_kind_gets_the_answer_that_is_due_by_both_ways() {
        let door = Door::new(Nothing, true).unwrap();
        for message in samples::messages() {
            door.by_device(&message);
            door.by_device(&message[..message.len() - 1]);
            for fixed in [0, 8, 40, 128] {
                let (headers, payload) = samples::in_place(&message, fixed);
                let (came, _) = door.by_ring(&headers, &payload, false);
                assert_eq!(came, message);
            }
        }
    }
}
