#!/usr/bin/env bash
# Feeds random bytes to all readers of external bytes, with cargo-fuzz and the address sanitizer: those of the kernel's messages
# (crates/fuse/fuzz), of messages and frames of other processes, of the log, records, superblocks and targets (fuzz). corpus/ in these
# folders keeps useful inputs for later runs; artifacts/ gets each failing input, and the command that runs it again is printed.
#
#   scripts/fuzz.sh wire [CONNECTIONS]     random bytes over connections to a server (crates/rpc/src/serve/malformed_input_tests), 200,000
#   scripts/fuzz.sh [TARGET [SECONDS [ARGUMENTS OF LIBFUZZER …]]]      without TARGET, or with "all": each in turn, 60 s
set -eu
if [ "${1:-}" = wire ]; then
    cd "$(dirname "$0")/.."
    GUPFS_HOSTILE_CASES=${2:-200000} exec cargo test --quiet -p gupfs-rpc --lib malformed_input_tests
fi
cd "$(dirname "$0")/.."
target=${1:-all} seconds=${2:-60}
shift $(($# < 2 ? $# : 2))

command -v cargo-fuzz >/dev/null 2>&1 || {
    echo "cargo-fuzz is missing; installing it: cargo install cargo-fuzz --locked"
    cargo install cargo-fuzz --locked
}
# The compiler's flags for fuzzing are not stable, but the stable compiler has them.
export RUSTC_BOOTSTRAP=1
# Builds go to the subfolder fuzz of CARGO_TARGET_DIR, if that is set, or of the crate's target, never among the workspace's builds.
targets="${CARGO_TARGET_DIR:-}"

found=
for dir in crates/fuse/fuzz fuzz; do
    cd "$dir"
    export CARGO_TARGET_DIR="${targets:-$PWD/target}/fuzz"
    all=$(cargo fuzz list --fuzz-dir .)
    if [ "$target" != all ]; then
        all=$(grep -x "$target" <<<"$all" || true)
    fi
    [ -z "$all" ] || RUSTFLAGS="--cfg fuzzing" cargo run --quiet --example seeds -- corpus
    for each in $all; do
        found=yes
        echo "fuzzing $each for $seconds s"
        cargo fuzz run --fuzz-dir . "$each" -- -max_total_time="$seconds" -print_final_stats=1 "$@"
    done
    cd - >/dev/null
done
[ -n "$found" ] || {
    echo "there is no target $target"
    exit 2
}
