//! # fuzzing: entry points for the programs of `fuzz/`
//!
//! Owns   access to all code that parses untrusted bytes: requests over both transports, INIT, the kernel's tables; and to the
//!        writers of names.
//! Never  part of a build other than tests and cargo-fuzz.
//! Enter  at `ProtocolHarness`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

pub use crate::limits::BEFORE_PAYLOAD;
pub use crate::request::samples::{
    init, messages, set_payload_length, split_for_ring, with_length,
};
pub use crate::worker::harness::ProtocolHarness;

use crate::handshake::handshake;
use crate::limits::OUT_HEADER;
use crate::{Dirents, DirentsPlus, FuseTransport, InitFlags, MountConfig, MountError, mountinfo};

/// The reply to `message` as the first message of a mount; None if it gets none. Panics if the kernel would reject that reply, or if the
/// outcome of the handshake and the reply contradict each other.
pub fn reply_to_init(message: &[u8]) -> Option<Vec<u8>> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
    send(&kernel, message, SendFlags::empty()).unwrap();
    let mut config = MountConfig::new("nothing", "fuzzing");
    config.transport = FuseTransport::Device;
    // The device stays open until the reply is taken, also after an error: a socket whose other end was closed reads as its end, or
    // as if it were open while another process looks at the descriptor in /proc and so keeps it.
    let _open = ours.try_clone().unwrap();
    let outcome = handshake(ours, &config, true).map(|(_, negotiated, _)| negotiated);
    match (outcome, receive_reply(&kernel)) {
        (Ok(negotiated), Some(reply)) => {
            assert_eq!(reply.len(), OUT_HEADER + 64);
            assert!(
                negotiated.offered.contains(negotiated.flags)
                    && negotiated.flags.contains(config.required_flags)
            );
            assert!(!negotiated.flags.contains(InitFlags::OVER_IO_URING));
            Some(reply)
        }
        (Err(MountError::Version { .. } | MountError::KernelLacks(_)), Some(reply)) => {
            assert_eq!(reply.len(), OUT_HEADER);
            assert_eq!(reply[4..8], (-libc::EPROTO).to_ne_bytes());
            Some(reply)
        }
        // Nothing to reply to: it may not even have the number of a request.
        (Err(MountError::Malformed(_) | MountError::NotInit(_)), None) => None,
        (outcome, reply) => panic!("the handshake ended with {outcome:?}, its reply is {reply:?}"),
    }
}

/// A reply has arrived as soon as the handshake has written it: without one there is none. Panics if its length is not the one in it.
fn receive_reply(kernel: &OwnedFd) -> Option<Vec<u8>> {
    let mut reply = vec![0; 256];
    match recv(kernel, &mut reply, RecvFlags::DONTWAIT) {
        Ok((length, _)) => reply.truncate(length),
        Err(rustix::io::Errno::AGAIN) => return None,
        Err(errno) => panic!("the socket in place of the device failed: {errno}"),
    }
    assert_eq!(reply[..4], (reply.len() as u32).to_ne_bytes());
    Some(reply)
}

/// The mount points in a mount table.
pub fn mounted_at(table: &[u8]) -> Vec<PathBuf> {
    let mounts = mountinfo::parse_table(table);
    mounts.into_iter().map(|mount| mount.path).collect()
}

/// Number of CPUs in a list.
pub fn cpus(list: &str) -> Option<usize> {
    crate::transport::ring::count_cpus(list)
}

pub fn names(dirents: Dirents) -> Vec<u8> {
    dirents.into_bytes()
}

pub fn names_and_attributes(dirents: DirentsPlus) -> Vec<u8> {
    dirents.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::IN_HEADER;

    #[test]
    fn a_first_message_gets_the_reply_of_its_outcome() {
        let reply = reply_to_init(&init()).unwrap();
        assert_eq!(reply[4..8], 0u32.to_ne_bytes());
        // Another major version: the first field after the header.
        let mut other = init();
        other[IN_HEADER..][..4].copy_from_slice(&8u32.to_ne_bytes());
        let reply = reply_to_init(&other).unwrap();
        assert_eq!(reply[4..8], (-libc::EPROTO).to_ne_bytes());
        // Shorter than its header states, not INIT, and without a header.
        let short = &init()[..IN_HEADER + 20];
        let other = messages().swap_remove(0);
        for message in [short, &other, &[]] {
            assert_eq!(reply_to_init(message), None);
        }
    }
}
