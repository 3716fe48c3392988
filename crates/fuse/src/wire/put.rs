//! Writes numbers in order.

/// A target that bytes are appended to.
pub trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_ne_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    fn put_i32(&mut self, value: i32) {
        self.put(&value.to_ne_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_ne_bytes());
    }

    fn put_i64(&mut self, value: i64) {
        self.put(&value.to_ne_bytes());
    }

    fn put_zeros(&mut self, count: usize) {
        for _ in 0..count {
            self.put(&[0]);
        }
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }
}
