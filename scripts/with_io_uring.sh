#!/usr/bin/env bash
# Runs a command with FUSE over io_uring switched on, and restores the switch afterwards. If the machine lacks the feature or forbids
# it, the script reports that, and runs the command only with --anyway.
#
#   scripts/with_io_uring.sh [--anyway] COMMAND …
set -eu
switch=/sys/module/fuse/parameters/enable_uring
anyway=
[ "$1" != --anyway ] || { anyway=1; shift; }

without() {
    echo "not over io_uring: $1"
    if [ -z "$anyway" ]; then
        # This counts among the tests that were not run (crates/skips).
        [ -z "${GUPFS_SKIPPED:-}" ] || printf 'fuse_io_uring\tmake\t%s\t%s\n' "${command[*]: -1}" "$1" >> "$GUPFS_SKIPPED"
        exit 0
    fi
    exec "${command[@]}"
}
command=("$@")

modprobe fuse 2>/dev/null || true
if [ ! -e "$switch" ]; then
    without "this kernel's FUSE cannot ($switch is not there)"
fi
before=$(cat "$switch")
if [ "$before" != Y ]; then
    if ! { echo Y > "$switch"; } 2>/dev/null; then
        without "$switch cannot be written (not root, or it is read-only here)"
    fi
    trap 'echo N > "$switch"' EXIT
fi
"${command[@]}"
