//! Random numbers that are the same for the same seed on every machine.

/// The increment of SplitMix64: 2⁶⁴ over the golden ratio.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's step from a state to a number: every bit of the state moves about half the bits of the number.
pub fn mix(state: u64) -> u64 {
    let mut x = state.wrapping_add(GOLDEN_GAMMA);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
