//! # fuzzing: entry points for the programs of `fuzz/`
//!
//! Owns   access to all code that parses untrusted bytes: requests over both transports, INIT, the kernel's tables; and to the
//!        writers of names.
//! Never  part of a build other than tests and cargo-fuzz.
//! Enter  at `ProtocolHarness`.

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
use crate::{Dirents, DirentsPlus, FuseTransport, InitFlags, MountConfig, mountinfo};

/// The reply to `message` as the first message of a mount. Panics if the kernel would reject that reply.
pub fn reply_to_init(message: &[u8]) -> Option<Vec<u8>> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
    send(&kernel, message, SendFlags::empty()).unwrap();
    let mut config = MountConfig::new("nothing", "fuzzing");
    config.transport = FuseTransport::Device;
    // The device is kept open until the reply is taken.
    let (_ours, negotiated) = match handshake(ours, &config, true) {
        Ok((ours, negotiated, _)) => (Some(ours), Some(negotiated)),
        Err(_) => (None, None),
    };
    let mut reply = vec![0; 256];
    let length = match recv(&kernel, &mut reply, RecvFlags::DONTWAIT) {
        Ok((length, _)) => length,
        Err(errno) => panic!("the socket in place of the device failed: {errno}"),
    };
    reply.truncate(length);
    match negotiated {
        Some(negotiated) => {
            assert_eq!(reply.len(), OUT_HEADER + 64);
            assert!(
                negotiated.offered.contains(negotiated.flags)
                    && negotiated.flags.contains(config.required_flags)
            );
            assert!(!negotiated.flags.contains(InitFlags::OVER_IO_URING));
        }
        None if reply.is_empty() => return None,
        None => assert_eq!(reply[4..8], (-libc::EPROTO).to_ne_bytes()),
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
