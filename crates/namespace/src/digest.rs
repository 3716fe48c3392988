//! A request's digest: it distinguishes a retransmission from another request with the same sequence number.

use gupfs_proto::{Caller, meta::MetaOp};
use postcard::ser_flavors::Flavor;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Digest of the operation and its caller. It guards against mistakes of clients, not against forgery, so the hash has no key.
pub(crate) fn digest(op: &MetaOp, caller: &Caller) -> u64 {
    let hasher = HasherFlavor(SipHasher24::new());
    postcard::serialize_with_flavor(&(op, caller), hasher)
        .expect("a request in memory always serialises into a hasher")
}

/// Serialises into a hash, without a buffer.
struct HasherFlavor(SipHasher24);

impl Flavor for HasherFlavor {
    type Output = u64;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.write_u8(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.write(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<u64> {
        Ok(self.0.finish())
    }
}
