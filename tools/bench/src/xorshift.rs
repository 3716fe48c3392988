//! Random numbers whose bytes do not compress, the same for the same seed.

/// Marsaglia's xorshift with 64 bits (2003).
pub struct Xorshift(u64);

impl Xorshift {
    pub fn new(seed: u64) -> Xorshift {
        Xorshift(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed + 1) | 1)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
