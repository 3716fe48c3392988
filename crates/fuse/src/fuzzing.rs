//! # fuzzing: what the programs of `fuzz/` reach
//!
//! Owns   ways to what reads bytes of others: requests by both ways, INIT, the kernel's tables; and the writers of names.
//! Never  in a build that is neither a test nor made by cargo-fuzz.
//! Enter  at `Door`.

use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

pub use crate::lane::trial::Door;
pub use crate::limits::BEFORE_PAYLOAD;
pub use crate::request::samples::{in_place, init, messages, say_payload, with_length};

use crate::handshake::handshake;
use crate::limits::OUT_HEADER;
use crate::{Config, Dirents, DirentsPlus, InitFlags, Transport, mountinfo};

/// What the kernel is told when this is the first message of a mount. Panics if it would not be content.
pub fn greet(message: &[u8]) -> Option<Vec<u8>> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
    send(&kernel, message, SendFlags::empty()).unwrap();
    let mut config = Config::new("nothing", "fuzzing");
    config.transport = Transport::Device;
    // What came is kept, so that the socket is open when the answer is taken.
    let (_ours, met) = match handshake(ours, &config, true) {
        Ok((ours, negotiated, _)) => (Some(ours), Some(negotiated)),
        Err(_) => (None, None),
    };
    let mut answer = vec![0; 256];
    let length = match recv(&kernel, &mut answer, RecvFlags::DONTWAIT) {
        Ok((length, _)) => length,
        Err(errno) => panic!("the socket that stands for the device failed: {errno}"),
    };
    answer.truncate(length);
    match met {
        Some(met) => {
            assert_eq!(answer.len(), OUT_HEADER + 64);
            assert!(met.offered.contains(met.flags) && met.flags.contains(config.must));
            assert!(!met.flags.contains(InitFlags::OVER_IO_URING));
        }
        None if answer.is_empty() => return None,
        None => assert_eq!(answer[4..8], (-libc::EPROTO).to_ne_bytes()),
    }
    assert_eq!(answer[..4], (answer.len() as u32).to_ne_bytes());
    Some(answer)
}

/// The paths of a table of mounts.
pub fn mounted_at(table: &[u8]) -> Vec<PathBuf> {
    let mounts = mountinfo::read(table);
    mounts.into_iter().map(|mount| mount.path).collect()
}

/// How many CPUs a list names.
pub fn cpus(list: &str) -> Option<usize> {
    crate::transport::ring::count_cpus(list)
}

pub fn names(dirents: Dirents) -> Vec<u8> {
    dirents.into_bytes()
}

pub fn names_and_attributes(dirents: DirentsPlus) -> Vec<u8> {
    dirents.into_bytes()
}
