//! # fusermount: the setuid program fusermount3, which mounts and unmounts for users other than root
//!
//! Owns   running the program, and the socket over which it sends the device descriptor.
//! Never  chooses options.
//! Enter  at `mount`, `unmount`.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::error::MountError;

const PROGRAM: &str = "fusermount3";

/// Mounts at `path` with these options of fusermount3; returns the device descriptor of the connection.
pub(crate) fn mount(path: &Path, options: &str) -> Result<OwnedFd, MountError> {
    let failed = |why: String| MountError::Fusermount {
        path: path.into(),
        why,
    };
    let socket = |error: rustix::io::Errno| failed(format!("cannot create a socket: {error}"));
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(socket)?;
    // fusermount3 inherits its end under the same descriptor number.
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(socket)?;
    let output = Command::new(PROGRAM)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .arg("-o")
        .arg(options)
        .arg("--")
        .arg(path)
        .output()
        .map_err(|error| failed(format!("cannot start fusermount3: {error}")))?;
    drop(theirs);
    if !output.status.success() {
        return Err(failed(error_text(&output)));
    }
    receive_descriptor(&ours)
        .map_err(|error| failed(format!("fusermount3 sent no device descriptor: {error}")))
}

fn receive_descriptor(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let first = descriptors
        .next()
        .and_then(|mut descriptors| descriptors.next());
    first.ok_or_else(|| io::Error::other("its message contains no descriptor"))
}

/// Unmounts `path`; with `lazily` also if it is in use.
pub(crate) fn unmount(path: &Path, lazily: bool) -> io::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if lazily {
        command.arg("-z");
    }
    let output = command.arg("--").arg(path).output()?;
    if output.status.success() {
        return Ok(());
    }
    let error_text = error_text(&output);
    // fusermount3 reports no error number, only a message.
    Err(if error_text.contains("busy") {
        io::Error::from_raw_os_error(libc::EBUSY)
    } else {
        io::Error::other(error_text)
    })
}

fn error_text(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if words.is_empty() {
        output.status.to_string()
    } else {
        words
    }
}
