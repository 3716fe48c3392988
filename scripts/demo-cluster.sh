#!/usr/bin/env bash
# Demonstrates a cluster on one machine: a metadata server, four object servers and three mounts, each in a network of its own. Works on
# all mounts, kills every daemon once meanwhile, and compares every byte through another mount. Leaves nothing behind.
#
#   scripts/demo-cluster.sh PATH-OF-THE-BINARY
set -eu -o pipefail
gupfs=$(realpath "${1:?usage: demo-cluster.sh PATH-OF-THE-BINARY}")
project=$(realpath "$(dirname "$0")/..")
servers="oss1 oss2 oss3 oss4" mounts="mnt1 mnt2 mnt3"
. "$project/scripts/networks.sh"

kill_and_start() {
    local host=$1
    kill -9 "${pid[$host]}"
    wait "${pid[$host]}" 2>/dev/null || true
    sleep 0.5
    "start_${2}" "$host"
    note "killed and started again: $host"
}

say "Nine networks: one switch, eight hosts"
wire
note "$(for host in $hosts; do printf '%s %s  ' "$host" "$(address "$host")"; done)"

say "One metadata server, four object servers with two targets each, three mounts"
start_mds
for oss in $servers; do
    mkdir "$place/$oss"
    start_oss "$oss"
    for disk in disk0 disk1; do
        on "$oss" "$gupfs" ost add "$place/$oss/$disk" --mds "$mds" --key "$key" | sed "s|'$place/|   '|"
    done
done
for mnt in $mounts; do
    mkdir "$place/$mnt"
    start_mount "$mnt"
    note "$(tail -n 1 "$place/$mnt.out" | sed "s|$place/||; s/^gupfs: //; s/; Ctrl-C.*//")"
done

say "A source tree to work with"
original=$place/original
mkdir "$original"
cp -r "$project/crates" "$project/tools" "$project/docs" "$project/scripts" "$original/"
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
for crate in $(awk -F'"' '/^name = /{n = $2} /^version = /{print n "-" $2}' "$project/Cargo.lock" | sort -u); do
    [ "$(find "$original" -type f | wc -l)" -ge 3000 ] && break
    for dir in "$registry"/*/"$crate"; do [ -d "$dir" ] && cp -r "$dir" "$original/"; done
done
# Files larger than one stripe, with random bytes.
for number in 1 2 3 4; do head -c 24000000 /dev/urandom >"$original/large$number"; done
(cd "$original" && find . -type f -print0 | xargs -0 sha256sum | sort -k 2 >"$place/sums")
files=$(wc -l <"$place/sums")
bytes=$(cd "$original" && find . -type f -printf '%s\n' | awk '{s += $1} END {print s}')
note "$files files, $(calc "\"%.1f MB\", $bytes / 1e6")"

say "Copy it on all three mounts at once, and kill -9 every server meanwhile"
t=$(now)
for mnt in $mounts; do
    (cp -r "$original" "$place/$mnt/from-$mnt" 2>"$place/$mnt.errors" && touch "$place/$mnt.copied") &
    copies="${copies:-} $!"
done
sleep 1
for oss in $servers; do kill_and_start "$oss" oss; done
kill_and_start mds mds
for copy in $copies; do
    wait "$copy" || { echo "a copy failed:" >&2; head "$place"/*.errors >&2; exit 1; }
done
t=$(calc "\"%.1f\", $(now) - $t")
note "3 × $files files copied in $t s, without an error for any program"

say "Compare every byte through another mount"
compare() {
    (cd "$place/$2/from-$1" && sha256sum --check --quiet --strict "$place/sums")
    note "what $1 wrote, read through $2: $files of $files files are as they were"
}
compare mnt1 mnt2
compare mnt2 mnt3
compare mnt3 mnt1

say "kill -9 a mount a second after its programs were answered"
head -c 5000000 /dev/urandom >"$place/last"
cp "$place/last" "$place/mnt3/last" && echo "a line" >"$place/mnt3/small"
sleep 1
kill -9 "${pid[mnt3]}"
wait "${pid[mnt3]}" 2>/dev/null || true
pid[mnt3]=
t=$(now)
cmp "$place/last" "$place/mnt1/last"
[ "$(cat "$place/mnt2/small")" = "a line" ]
note "the other mounts have all of it, $(calc "\"%.1f s\", $(now) - $t") later"
for _ in $(seq 100); do mountpoint -q "$place/mnt3" || break; sleep 0.1; done
start_mount mnt3
[ "$(cat "$place/mnt3/small")" = "a line" ]
note "mounted again: mnt3"

say "Two mounts append to one file"
for mnt in mnt1 mnt2; do
    (for line in $(seq 200); do echo "$mnt $line" >>"$place/$mnt/log"; done) &
    appends="${appends:-} $!"
done
for append in $appends; do wait "$append"; done
for mnt in mnt1 mnt2; do
    [ "$(grep -c "^$mnt " "$place/mnt3/log")" = 200 ] && grep "^$mnt " "$place/mnt3/log" | diff -q - <(seq -f "$mnt %g" 200) >/dev/null
done
note "400 lines, none lost, none mixed, each mount's in their order"

say "What the metadata server sees"
on mds "$gupfs" status "$place/store" | sed "s|$place/||g; s/^/   /"

say "Stop"
for mnt in $mounts; do
    "$gupfs" stop "$place/$mnt" | sed "s|$place/||; s/^/   /"
    wait "${pid[$mnt]}"
    pid[$mnt]=
done
for host in mds $servers; do
    kill "${pid[$host]}"
    wait "${pid[$host]}" || { echo "$host did not stop cleanly" >&2; tail "$place/$host.log" >&2; exit 1; }
    pid[$host]=
done
note "all stopped cleanly"

say "All is well."
