//! INIT: kernel and server negotiate before any other request.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tracing::{debug, warn};

use crate::Errno;
use crate::config::MountConfig;
use crate::error::MountError;
use crate::limits::{MAJOR, MINOR, MINOR_MIN, OUT_HEADER, PAYLOAD_MIN};
use crate::mount_info::Negotiated;
use crate::over_io_uring::{self, UringSupport};
use crate::pages_limit;
use crate::ring_threads::RingThreads;
use crate::transport::{Device, DeviceRead, FuseTransport, ring};
use crate::wire::init::{InitReply, InitRequest};
use crate::wire::{FromWire, InitFlags, Opcode, ReplyHeader, RequestHeader, split};

/// No request before the reply to INIT is larger.
const INIT_BUFFER_SIZE: usize = 8192;

/// Waits for INIT on the mounted device and replies to it. An unsuitable kernel gets an error reply, and every use of the mount
/// fails.
///
/// `abortable`: the connection can be aborted if a ring fails later; otherwise programs would wait without end.
pub(crate) fn handshake(
    fd: OwnedFd,
    config: &MountConfig,
    abortable: bool,
) -> Result<(OwnedFd, Negotiated, Option<RingThreads>), MountError> {
    let device = Device::of(fd);
    let mut buffer = vec![0; INIT_BUFFER_SIZE];
    let length = loop {
        match device.read(&mut buffer).map_err(MountError::Device)? {
            DeviceRead::Message(length) => break length,
            DeviceRead::Retry => {}
            DeviceRead::Disconnected => return Err(MountError::Gone),
        }
    };
    let message = &buffer[..length];
    let header = RequestHeader::from_wire(message).map_err(MountError::Malformed)?;
    if header.opcode != Opcode::Init as u32 {
        return Err(MountError::NotInit(header.opcode));
    }
    let (mut body, _) = split(&header, message).map_err(MountError::Malformed)?;
    let offer = InitRequest::from_wire(&mut body).map_err(MountError::Malformed)?;
    debug!(?offer, "the kernel offers");

    let device = device.into_fd();
    let outcome = make_rings(config, &offer, device.as_fd(), abortable).and_then(|rings| {
        let negotiated = negotiate(&offer, config, rings.is_some())?;
        Ok((negotiated, rings))
    });
    let device = Device::of(device);
    let mut body = Vec::with_capacity(64);
    let errno = match &outcome {
        Ok((negotiated, _)) => {
            init_reply(negotiated, config).put(&mut body);
            None
        }
        Err(_) => Some(Errno::EPROTO),
    };
    let reply_header = ReplyHeader {
        length: OUT_HEADER + body.len(),
        errno,
        unique: header.unique,
    };
    let reply = [&reply_header.to_bytes()[..], &body].concat();
    let written = device.write(&[IoSlice::new(&reply)]);
    let (negotiated, rings) = outcome?;
    written.map_err(MountError::Device)?;
    debug!(?negotiated, "agreed");
    Ok((device.into_fd(), negotiated, rings))
}

fn negotiate(
    offer: &InitRequest,
    config: &MountConfig,
    rings: bool,
) -> Result<Negotiated, MountError> {
    if offer.major != MAJOR || offer.minor < MINOR_MIN {
        return Err(MountError::Version {
            major: offer.major,
            minor: offer.minor,
        });
    }
    let rings = match rings {
        true => InitFlags::OVER_IO_URING,
        false => InitFlags::empty(),
    };
    let missing = config.required_flags - offer.flags;
    if !missing.is_empty() {
        return Err(MountError::KernelLacks(missing));
    }
    Ok(Negotiated {
        kernel_minor: offer.minor,
        offered: offer.flags,
        flags: (((config.wanted_flags | config.required_flags) - InitFlags::OVER_IO_URING) | rings)
            & offer.flags,
        max_write: config.max_write,
        max_pages: config.max_pages.min(pages_limit::get()),
        max_readahead: config.max_readahead.min(offer.max_readahead),
    })
}

/// Creates the rings if requests will use them. This happens before the reply to INIT: once a kernel has a reply that selects
/// io_uring, every program waits for the rings.
fn make_rings(
    config: &MountConfig,
    offer: &InitRequest,
    device: BorrowedFd<'_>,
    abortable: bool,
) -> Result<Option<RingThreads>, MountError> {
    let offered = offer.flags.contains(InitFlags::OVER_IO_URING);
    let asked_for = config.transport == FuseTransport::IoUring;
    if config.transport == FuseTransport::Device || !(offered || asked_for) {
        return Ok(None);
    }
    let payload = ring::payload_size(config.max_write, config.max_pages);
    let why = match over_io_uring::support() {
        UringSupport::LeaksMemory if asked_for => {
            warn!(
                "this kernel leaks a page of memory with every large FUSE request over io_uring; Linux 6.18.3 and newer do not"
            );
            None
        }
        UringSupport::Ready => None,
        other => Some(other.to_string()),
    };
    let why = why
        .or_else(|| (!offered).then(|| "this kernel does not offer it".into()))
        .or_else(|| {
            (!abortable).then(|| "fusectl is not available, so a connection whose ring fails could not be aborted".into())
        })
        .or_else(|| (payload < PAYLOAD_MIN).then(|| "the configured request size is too small for it".into()));
    let made = match why {
        Some(why) => Err(MountError::NoIoUring(why)),
        None => ring::possible_cpus()
            .and_then(|queues| RingThreads::prepare(device, queues, payload, config.pin_rings))
            .map_err(MountError::Ring),
    };
    match made {
        Ok(rings) => Ok(Some(rings)),
        Err(error) if asked_for => Err(error),
        Err(error) => {
            debug!(%error, "using /dev/fuse for requests");
            Ok(None)
        }
    }
}

fn init_reply(negotiated: &Negotiated, config: &MountConfig) -> InitReply {
    InitReply {
        major: MAJOR,
        minor: MINOR.min(negotiated.kernel_minor),
        max_readahead: negotiated.max_readahead,
        flags: negotiated.flags,
        max_background: config.max_background,
        congestion_threshold: config.congestion_threshold,
        max_write: config.max_write,
        time_gran: config.time_gran,
        max_pages: config.max_pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(flags: InitFlags) -> InitRequest {
        InitRequest {
            major: 7,
            minor: 45,
            max_readahead: 131_072,
            flags,
        }
    }

    #[test]
    fn a_flag_is_in_effect_if_both_sides_request_it() {
        let mut config = MountConfig::new("s", "t");
        config.required_flags = InitFlags::BIG_WRITES;
        config.wanted_flags = InitFlags::ASYNC_READ | InitFlags::POSIX_LOCKS;
        let offered = InitFlags::BIG_WRITES | InitFlags::ASYNC_READ | InitFlags::WRITEBACK_CACHE;
        let outcome = negotiate(&offer(offered), &config, false).unwrap();
        assert_eq!(outcome.flags, InitFlags::BIG_WRITES | InitFlags::ASYNC_READ);
        assert_eq!(outcome.max_readahead, 131_072);
    }

    #[test]
    fn a_kernel_without_a_required_flag_is_refused_with_the_flag_name() {
        let mut config = MountConfig::new("s", "t");
        config.required_flags =
            InitFlags::POSIX_ACL | InitFlags::HANDLE_KILLPRIV_V2 | InitFlags::BIG_WRITES;
        let error = negotiate(
            &offer(InitFlags::BIG_WRITES | InitFlags::POSIX_ACL),
            &config,
            false,
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "this kernel's FUSE lacks HANDLE_KILLPRIV_V2"
        );
    }

    #[test]
    fn an_old_kernel_is_refused_with_both_versions() {
        let offer = InitRequest {
            minor: 31,
            ..offer(InitFlags::all())
        };
        let error = negotiate(&offer, &MountConfig::new("s", "t"), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this kernel has FUSE protocol 7.31; gupfs needs 7.36 or newer"
        );
    }

    #[test]
    fn the_default_flags_exclude_flags_that_keep_stale_caches() {
        let never = InitFlags::WRITEBACK_CACHE
            | InitFlags::EXPLICIT_INVAL_DATA
            | InitFlags::NO_OPEN_SUPPORT
            | InitFlags::NO_OPENDIR_SUPPORT
            | InitFlags::HAS_EXPIRE_ONLY;
        assert!((MountConfig::FLAGS & never).is_empty());
    }
}
