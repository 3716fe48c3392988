//! Bytes over a connection whose handshake is over: they end it at most, and others are served.

/// The first byte says whether the sums of the frames are set right.
pub fn frames(input: &[u8]) {
    let Some((how, bytes)) = input.split_first() else {
        return;
    };
    let bytes = match how & 1 {
        1 => gupfs_rpc::fuzzing::recompute_checksums(bytes),
        _ => bytes.to_vec(),
    };
    crate::simulate(gupfs_rpc::fuzzing::after_handshake(&bytes));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let samples = gupfs_rpc::fuzzing::samples();
    let with = |how: u8| {
        samples
            .iter()
            .map(move |sample| [&[how], &sample[..]].concat())
    };
    with(0).chain(with(1)).collect()
}
