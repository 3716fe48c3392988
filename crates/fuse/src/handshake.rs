//! INIT: kernel and server agree, before anything else is asked.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tracing::{debug, warn};

use crate::config::{Config, Transport};
use crate::error::MountError;
use crate::limits::{MAJOR, MINOR, MINOR_MIN, OUT_HEADER, PAYLOAD_MIN};
use crate::over_io_uring::{self, Support};
use crate::pages_limit;
use crate::rings::Rings;
use crate::transport::{Device, Received, ring};
use crate::wire::init::{Offer, Terms};
use crate::wire::{FromWire, Header, InitFlags, Opcode, Put, split};

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The kernel's own minor version; messages follow the smaller of it and ours.
    pub kernel_minor: u32,
    /// What the kernel offered.
    pub offered: InitFlags,
    /// What holds.
    pub flags: InitFlags,
    pub max_write: u32,
    /// What was asked for, cut to the kernel's limit for all mounts (see `pages_limit`).
    pub max_pages: u16,
    pub max_readahead: u32,
}

impl Negotiated {
    pub fn has(&self, flags: InitFlags) -> bool {
        self.flags.contains(flags)
    }
}

/// A request so large does not come before INIT is answered.
const ROOM: usize = 8192;

/// Waits for INIT on the mounted device, and answers it. A kernel that will not do is told so, and every use of the
/// mount fails.
///
/// `abortable`: a ring that fails later can end the connection, rather than let programs wait for ever.
pub(crate) fn handshake(
    fd: OwnedFd,
    config: &Config,
    abortable: bool,
) -> Result<(OwnedFd, Negotiated, Option<Rings>), MountError> {
    let device = Device::of(fd);
    let mut buffer = vec![0; ROOM];
    let length = loop {
        match device.read(&mut buffer).map_err(MountError::Device)? {
            Received::Message(length) => break length,
            Received::Nothing => {}
            Received::End => return Err(MountError::Gone),
        }
    };
    let message = &buffer[..length];
    let header = Header::from_wire(message).map_err(MountError::Malformed)?;
    if header.opcode != Opcode::Init as u32 {
        return Err(MountError::NotInit(header.opcode));
    }
    let (mut body, _) = split(&header, message).map_err(MountError::Malformed)?;
    let offer = Offer::from_wire(&mut body).map_err(MountError::Malformed)?;
    debug!(?offer, "the kernel offers");

    let device = device.into_fd();
    let agreed = make_rings(config, &offer, device.as_fd(), abortable).and_then(|rings| {
        let negotiated = agree(&offer, config, rings.is_some())?;
        Ok((negotiated, rings))
    });
    let device = Device::of(device);
    let mut answer = Vec::with_capacity(OUT_HEADER + 64);
    answer.put_zeros(OUT_HEADER);
    match &agreed {
        Ok((negotiated, _)) => terms(negotiated, config).put(&mut answer),
        Err(_) => answer[4..8].copy_from_slice(&(-libc::EPROTO).to_ne_bytes()),
    }
    let length = answer.len() as u32;
    answer[..4].copy_from_slice(&length.to_ne_bytes());
    answer[8..16].copy_from_slice(&header.unique.0.to_ne_bytes());
    let written = device.write(&[IoSlice::new(&answer)]);
    let (negotiated, rings) = agreed?;
    written.map_err(MountError::Device)?;
    debug!(?negotiated, "agreed");
    Ok((device.into_fd(), negotiated, rings))
}

fn agree(offer: &Offer, config: &Config, rings: bool) -> Result<Negotiated, MountError> {
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
    let missing = config.must - offer.flags;
    if !missing.is_empty() {
        return Err(MountError::KernelLacks(missing));
    }
    Ok(Negotiated {
        kernel_minor: offer.minor,
        offered: offer.flags,
        flags: (((config.want | config.must) - InitFlags::OVER_IO_URING) | rings) & offer.flags,
        max_write: config.max_write,
        max_pages: config.max_pages.min(pages_limit::get()),
        max_readahead: config.max_readahead.min(offer.max_readahead),
    })
}

/// Rings, if requests shall come that way. They are made before INIT is answered: a kernel that was told of rings lets all
/// programs wait for them.
fn make_rings(
    config: &Config,
    offer: &Offer,
    device: BorrowedFd<'_>,
    abortable: bool,
) -> Result<Option<Rings>, MountError> {
    let offered = offer.flags.contains(InitFlags::OVER_IO_URING);
    let asked_for = config.transport == Transport::IoUring;
    if config.transport == Transport::Device || !(offered || asked_for) {
        return Ok(None);
    }
    let payload = ring::payload_size(config.max_write, config.max_pages);
    let why = match over_io_uring::support() {
        Support::KernelLeaks if asked_for => {
            warn!(
                "this kernel loses a page of memory with every large request over io_uring; Linux 6.18.3 is mended"
            );
            None
        }
        Support::Ready => None,
        other => Some(other.to_string()),
    };
    let why = why
        .or_else(|| (!offered).then(|| "this kernel does not offer it".into()))
        .or_else(|| {
            (!abortable).then(|| "there is no fusectl, to end a connection whose ring fails".into())
        })
        .or_else(|| (payload < PAYLOAD_MIN).then(|| "requests are too small for it".into()));
    let made = match why {
        Some(why) => Err(MountError::NoIoUring(why)),
        None => ring::possible_cpus()
            .and_then(|queues| Rings::prepare(device, queues, payload, config.pin_rings))
            .map_err(MountError::Ring),
    };
    match made {
        Ok(rings) => Ok(Some(rings)),
        Err(error) if asked_for => Err(error),
        Err(error) => {
            debug!(%error, "requests come through the device");
            Ok(None)
        }
    }
}

fn terms(negotiated: &Negotiated, config: &Config) -> Terms {
    Terms {
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

    fn offer(flags: InitFlags) -> Offer {
        Offer {
            major: 7,
            minor: 45,
            max_readahead: 131_072,
            flags,
        }
    }

    #[test]
    fn a_flag_is_agreed_on_if_both_want_it() {
        let mut config = Config::new("s", "t");
        config.must = InitFlags::BIG_WRITES;
        config.want = InitFlags::ASYNC_READ | InitFlags::POSIX_LOCKS;
        let offered = InitFlags::BIG_WRITES | InitFlags::ASYNC_READ | InitFlags::WRITEBACK_CACHE;
        let agreed = agree(&offer(offered), &config, false).unwrap();
        assert_eq!(agreed.flags, InitFlags::BIG_WRITES | InitFlags::ASYNC_READ);
        assert_eq!(agreed.max_readahead, 131_072);
    }

    #[test]
    fn a_kernel_that_lacks_a_flag_is_refused_by_its_name() {
        let mut config = Config::new("s", "t");
        config.must = InitFlags::POSIX_ACL | InitFlags::HANDLE_KILLPRIV_V2 | InitFlags::BIG_WRITES;
        let error = agree(
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
        let offer = Offer {
            minor: 31,
            ..offer(InitFlags::all())
        };
        let error = agree(&offer, &Config::new("s", "t"), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this kernel speaks FUSE 7.31, needed is 7.36 or newer"
        );
    }

    #[test]
    fn the_default_flags_leave_out_what_makes_caches_outlive_their_truth() {
        let never = InitFlags::WRITEBACK_CACHE
            | InitFlags::EXPLICIT_INVAL_DATA
            | InitFlags::NO_OPEN_SUPPORT
            | InitFlags::NO_OPENDIR_SUPPORT
            | InitFlags::HAS_EXPIRE_ONLY;
        assert!((Config::FLAGS & never).is_empty());
    }
}
