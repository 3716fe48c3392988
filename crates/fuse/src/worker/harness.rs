//! A worker without a kernel: sends one message, receives its reply, and checks whether the kernel would accept it. For tests and
//! fuzzing.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Waker};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::{Spawner, Worker};
use crate::buffer::Pool;
use crate::call::CallContext;
use crate::limits::{IN_HEADER, OUT_HEADER, PAYLOAD_MIN};
use crate::pending::PendingRequests;
use crate::request::{Operation, Request, RequestFormat};
use crate::transport::Device;
use crate::transport::ring::{DetachedEntry, HEADERS};
use crate::wire::{Opcode, RequestHeader};
use crate::{Errno, FileSystem};

/// A file system behind both transports, with a test in the role of the kernel.
pub struct ProtocolHarness<F> {
    worker: Arc<Worker<F>>,
    /// The other end of the socket that the worker uses as its device.
    kernel: OwnedFd,
    entry: DetachedEntry,
}

/// The reply that a message must get.
#[derive(Debug, PartialEq, Eq)]
enum ExpectedReply {
    Nothing,
    Error(Errno),
    /// Any reply of the file system with at most this many bytes.
    Within(usize),
}

fn expected_reply(message: &[u8], format: &RequestFormat) -> ExpectedReply {
    let Ok(header) = RequestHeader::from_wire(message) else {
        return ExpectedReply::Nothing;
    };
    if Opcode::from_raw(header.opcode).is_some_and(Opcode::has_no_reply) {
        return ExpectedReply::Nothing;
    }
    match Request::from_wire(&header, message, format) {
        Err(_) => ExpectedReply::Error(Errno::EIO),
        Ok(request) => match request.operation {
            Operation::Unsupported(_) => ExpectedReply::Error(Errno::ENOSYS),
            operation => ExpectedReply::Within(operation.reply_body_max()),
        },
    }
}

/// The largest number that the kernel accepts as an error.
const ERRNO_MAX: i32 = 511;

/// Checks a reply as the kernel does; returns its error number.
fn check_reply(reply: &[u8], unique: u64) -> i32 {
    let word = |at: usize| u32::from_ne_bytes(reply[at..][..4].try_into().unwrap());
    assert_eq!(word(0) as usize, reply.len(), "the length in a reply");
    assert_eq!(
        reply[8..OUT_HEADER],
        unique.to_ne_bytes(),
        "the unique number in a reply"
    );
    let error = -(word(4) as i32);
    assert!((0..=ERRNO_MAX).contains(&error), "error {error}");
    assert!(
        error == 0 || reply.len() == OUT_HEADER,
        "an error has no body"
    );
    error
}

fn unique(message: &[u8]) -> u64 {
    RequestHeader::from_wire(message).map_or(0, |header| header.unique.0)
}

impl<F: FileSystem> ProtocolHarness<F> {
    /// # Errors
    /// No descriptor is free, or no memory can be mapped.
    pub fn new(fs: F, setxattr_ext: bool) -> io::Result<ProtocolHarness<F>> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let call_context = CallContext {
            pool: Arc::new(Pool::new(PAYLOAD_MIN)),
            pending: Arc::new(PendingRequests::new(None)),
        };
        let spawner: Spawner = Arc::new(|mut task| {
            let mut noop = Context::from_waker(Waker::noop());
            while task.as_mut().poll(&mut noop).is_pending() {}
        });
        let format = RequestFormat { setxattr_ext };
        let device = Arc::new(Device::of(ours));
        let worker = Worker::new(device, call_context, format, Arc::new(fs), spawner);
        Ok(ProtocolHarness {
            worker: Arc::new(worker),
            kernel,
            entry: DetachedEntry::new(PAYLOAD_MIN)?,
        })
    }

    /// Sends the message through the device transport and returns the reply. Panics if the kernel would reject the reply.
    pub fn send_by_device(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = self.worker.call_context.pool.take();
        buffer.read_target()[..message.len()].copy_from_slice(message);
        let buffer = self.worker.handle_device_message(buffer, message.len());
        self.worker.call_context.pool.put_back(buffer);
        let reply = self.receive_reply();
        assert_eq!(self.receive_reply(), None, "a second reply");
        let error = reply
            .as_ref()
            .map(|bytes| check_reply(bytes, unique(message)));
        let body = reply.as_ref().map_or(0, |bytes| bytes.len() - OUT_HEADER);
        match (expected_reply(message, &self.worker.format), error) {
            (ExpectedReply::Nothing, None) => {}
            (ExpectedReply::Error(errno), Some(error)) => assert_eq!(error, errno.raw()),
            (ExpectedReply::Within(body_max), Some(_)) => assert!(body <= body_max),
            (expected, error) => panic!("expected {expected:?}, but error {error:?} came"),
        }
        reply
    }

    /// Sends the request through a ring entry. Panics if the kernel would reject the reply. Returns the message, empty if it
    /// cannot be parsed, and the reply.
    pub fn send_by_ring(
        &self,
        headers: &[u8; HEADERS],
        payload: &[u8],
        crowded: bool,
    ) -> (Vec<u8>, Vec<u8>) {
        let incoming = self.entry.arrive(headers, payload, crowded);
        let message = incoming.message().to_vec();
        let named = match message.len() < IN_HEADER {
            true => incoming.unique().0,
            false => unique(&message),
        };
        self.worker.handle_ring_message(incoming);
        let reply = self
            .entry
            .take_reply()
            .expect("the ring entry is always returned with a reply");
        let (error, body) = (check_reply(&reply, named), reply.len() - OUT_HEADER);
        match expected_reply(&message, &self.worker.format) {
            _ if message.is_empty() => assert_eq!(error, Errno::EIO.raw()),
            ExpectedReply::Nothing => assert_eq!(body, 0),
            ExpectedReply::Error(errno) => assert_eq!(error, errno.raw()),
            ExpectedReply::Within(body_max) => assert!(body <= body_max),
        }
        (message, reply)
    }

    /// The largest payload of `send_by_ring`, and nearly that of `send_by_device`.
    pub fn capacity(&self) -> usize {
        self.entry.capacity()
    }

    fn receive_reply(&self) -> Option<Vec<u8>> {
        let mut reply = vec![0; 2 * PAYLOAD_MIN];
        match recv(&self.kernel, &mut reply, RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                reply.truncate(length);
                Some(reply)
            }
            Err(rustix::io::Errno::AGAIN) => None,
            Err(errno) => panic!("the socket in place of the device failed: {errno}"),
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

    /// Records the bytes that it receives.
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
    fn retrieved_bytes_are_found_wherever_the_fixed_part_lies() {
        let fs = Length::default();
        let retrieved = fs.0.clone();
        let harness = ProtocolHarness::new(fs, true).unwrap();
        let is_reply = |message: &Vec<u8>| message[4] == Opcode::NotifyReply as u8;
        let message = samples::messages().into_iter().find(is_reply).unwrap();
        for fixed in [0, 8, 40] {
            let (headers, payload) = samples::split_for_ring(&message, fixed);
            harness.send_by_ring(&headers, &payload, false);
            assert_eq!(std::mem::take(&mut *retrieved.lock().unwrap()), b"data");
        }
    }

    #[test]
    fn a_payload_that_does_not_begin_on_its_page_is_rejected() {
        let harness = ProtocolHarness::new(Length::default(), true).unwrap();
        let mut messages = samples::messages().into_iter();
        let write = |message: &Vec<u8>| message[4] == Opcode::Write as u8;
        let write = messages.find(write).unwrap();
        for (fixed, error) in [(40, 0), (0, libc::EIO), (39, libc::EIO), (44, libc::EIO)] {
            let (headers, payload) = samples::split_for_ring(&write, fixed);
            let (_, reply) = harness.send_by_ring(&headers, &payload, false);
            assert_eq!(reply[4..8], (-error).to_ne_bytes(), "{fixed}");
        }
    }

    #[test]
    fn every_operation_gets_the_expected_reply_over_both_transports() {
        let harness = ProtocolHarness::new(Nothing, true).unwrap();
        for message in samples::messages() {
            harness.send_by_device(&message);
            harness.send_by_device(&message[..message.len() - 1]);
            for fixed in [0, 8, 40, 128] {
                let (headers, payload) = samples::split_for_ring(&message, fixed);
                let (came, _) = harness.send_by_ring(&headers, &payload, false);
                assert_eq!(came, message);
            }
        }
    }
}
