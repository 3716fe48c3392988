#!/usr/bin/env bash
# Runs tests of xfstests (github.com/kdave/xfstests, built in XFSTESTS_DIR) on gupfs and compares the failed tests with the
# list of exceptions (scripts/xfstests/exceptions.txt): a failed test that is not listed, or a listed test that passes, fails the run.
#
#   scripts/xfstests.sh GUPFS XFSTESTS_DIR [TEST or option of `check` …]      default: -g quick
#
# Needs root. Everything runs in mount and process namespaces of its own, with copies of /etc/passwd and /etc/group that contain
# the suite's users: only the suite's results stay on the host, in XFSTESTS_DIR/results.
set -eu
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
here=$(cd "$(dirname "$0")" && pwd)
gupfs=$(readlink -f "$1"); suite=$(readlink -f "$2"); shift 2
[ $# -gt 0 ] || set -- -g quick
[ -x "$gupfs" ] || { echo "xfstests.sh: '$gupfs' is no program" >&2; exit 2; }
[ -x "$suite/check" ] && [ -x "$suite/src/lstat64" ] || {
    echo "xfstests.sh: '$suite' holds no built xfstests (its README says which packages it needs, then: make)" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "xfstests.sh: only root can mount" >&2; exit 2; }
helper=$(readlink -f /sbin/mount.fuse || true)
[ -x "$helper" ] || { echo "xfstests.sh: /sbin/mount.fuse is not there (package fuse3)" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/var/tmp}/gupfs-xfstests.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
mkdir "$work"/{test,scratch,test-store,scratch-store}

# Adds the suite's users to copies that are visible only in the namespace.
for file in passwd group; do cp "/etc/$file" "$work/$file"; done
user() { # NAME NUMBER
    grep -q "^$1:" "$work/passwd" || echo "$1:*:$2:$2::/:/bin/bash" >> "$work/passwd"
    grep -q "^$1:" "$work/group" || echo "$1:x:$2:" >> "$work/group"
}
user fsgqa 61001; user fsgqa2 61002; user 123456-fsgqa 61003

cat > "$work/local.config" <<CONFIG
export FSTYP=fuse
export FUSE_SUBTYP=.gupfs
export TEST_DEV=$work/test-store
export TEST_DIR=$work/test
export SCRATCH_DEV=$work/scratch-store
export SCRATCH_MNT=$work/scratch
export DF_PROG=$here/xfstests/df
export UMOUNT_PROG=$here/xfstests/umount
CONFIG

cat > "$work/inside" <<'INSIDE'
#!/usr/bin/env bash
set -eu
for file in passwd group; do mount --bind "$WORK/$file" "/etc/$file"; done
# mount(8) runs it for every `mount -t fuse.gupfs`.
mount --bind "$HERE/xfstests/mount.fuse" "$HELPER"
mount -t fuse.gupfs "$WORK/test-store" "$WORK/test"
cd "$SUITE"
status=0
HOST_OPTIONS="$WORK/local.config" ./check "$@" || status=$?
umount "$WORK/test" 2>/dev/null || umount -l "$WORK/test" || true
umount "$WORK/scratch" 2>/dev/null || true
exit $status
INSIDE
chmod +x "$work/inside"

echo "xfstests: $* on $("$gupfs" --version)"
set +e
WORK=$work HERE=$here SUITE=$suite HELPER=$helper GUPFS=$gupfs \
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$work/inside" "$@" | tee "$work/out"
set -e
"$here/xfstests/compare" "$work/out" "$here/xfstests/exceptions.txt"
