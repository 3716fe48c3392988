//! INIT: the negotiation between kernel and server.
//!
//! | reply | bytes |
//! |---|---|
//! | major, minor, max read-ahead, flags | 4 × u32 |
//! | max background, congestion threshold | 2 × u16 |
//! | max write, time granularity | 2 × u32 |
//! | max pages, map alignment | 2 × u16 |
//! | flags2, max stack depth | 2 × u32 |
//! | request timeout, unused | u16, 11 × u16 |

use super::{Cursor, FromWire, InitFlags, Malformed, Put};

/// The kernel's offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitRequest {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: InitFlags,
}

impl FromWire for InitRequest {
    fn from_wire(body: &mut Cursor<'_>) -> Result<InitRequest, Malformed> {
        let major = body.u32("major")?;
        let minor = body.u32("minor")?;
        let max_readahead = body.u32("max_readahead")?;
        let low = body.u32("flags")?;
        // Kernels before 7.36 end here.
        let high = if body.left() >= 4 {
            body.u32("flags2")?
        } else {
            0
        };
        let flags = InitFlags::from_halves(low, high);
        // `flags2` is valid only if INIT_EXT is set.
        let flags = if flags.contains(InitFlags::INIT_EXT) {
            flags
        } else {
            InitFlags::from_halves(low, 0)
        };
        Ok(InitRequest {
            major,
            minor,
            max_readahead,
            flags,
        })
    }
}

/// The server's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitReply {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    pub flags: InitFlags,
    pub max_background: u16,
    pub congestion_threshold: u16,
    pub max_write: u32,
    pub time_gran: u32,
    pub max_pages: u16,
}

impl InitReply {
    pub fn put(&self, out: &mut impl Put) {
        out.put_u32(self.major);
        out.put_u32(self.minor);
        out.put_u32(self.max_readahead);
        out.put_u32(self.flags.low());
        out.put_u16(self.max_background);
        out.put_u16(self.congestion_threshold);
        out.put_u32(self.max_write);
        out.put_u32(self.time_gran);
        out.put_u16(self.max_pages);
        out.put_u16(0);
        out.put_u32(self.flags.high());
        out.put_u32(0);
        out.put_zeros(24);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_flags_are_valid_only_with_their_bit() {
        let mut body = Vec::new();
        for word in [7, 45, 131072, 1 << 12, 1 << 4] {
            body.put_u32(word);
        }
        body.put_zeros(44);
        let offer = InitRequest::from_wire(&mut Cursor::new(&body)).unwrap();
        assert_eq!(offer.flags, InitFlags::AUTO_INVAL_DATA);
        body[12..16].copy_from_slice(&(1u32 << 12 | 1 << 30).to_ne_bytes());
        let offer = InitRequest::from_wire(&mut Cursor::new(&body)).unwrap();
        let expected =
            InitFlags::AUTO_INVAL_DATA | InitFlags::INIT_EXT | InitFlags::DIRECT_IO_ALLOW_MMAP;
        assert_eq!(offer.flags, expected);
    }

    #[test]
    fn the_reply_has_64_bytes() {
        let mut out = Vec::new();
        let terms = InitReply {
            major: 7,
            minor: 45,
            max_readahead: 1 << 20,
            flags: InitFlags::ASYNC_READ | InitFlags::CREATE_SUPP_GROUP,
            max_background: 64,
            congestion_threshold: 48,
            max_write: 1 << 20,
            time_gran: 1,
            max_pages: 257,
        };
        terms.put(&mut out);
        assert_eq!(out.len(), 64);
        assert_eq!(out[12..16], 1u32.to_ne_bytes());
        assert_eq!(out[28..30], 257u16.to_ne_bytes());
        assert_eq!(out[32..36], (1u32 << 2).to_ne_bytes());
    }
}
