#!/usr/bin/env bash
# Measures which share of slow networks a cluster uses: clients and object servers with one link each write and read at once, and the
# rates are compared with the capacity of the links. Leaves nothing behind.
#
#   scripts/bench-links.sh PATH-OF-THE-BINARY [MBIT-PER-SECOND [CLIENTS [MB-PER-CLIENT]]]
set -eu -o pipefail
gupfs=$(realpath "${1:?usage: bench-links.sh PATH-OF-THE-BINARY [MBIT-PER-SECOND [CLIENTS [MB-PER-CLIENT]]]}")
project=$(realpath "$(dirname "$0")/..")
mbit=${2:-400} clients=${3:-4} megabytes=${4:-250}
rate=${mbit}mbit
servers="oss1 oss2 oss3 oss4" mounts=$(seq -f mnt%g "$clients" | xargs)
. "$project/scripts/networks.sh"

wire
start_mds
for mnt in $mounts; do
    mkdir "$place/$mnt"
    start_mount "$mnt"
done

# at_once COMMAND: runs the command for each client, with its number, all at once; prints the seconds until the last has ended.
at_once() {
    local begun jobs="" number
    begun=$(now)
    for number in $(seq "$clients"); do
        "$1" "$number" &
        jobs="$jobs $!"
    done
    for job in $jobs; do wait "$job" || return 1; done
    calc "\"%.3f\", $(now) - $begun"
}
write() { dd if=/dev/zero of="$place/mnt$1/$round-$1" bs=1M count="$megabytes" conv=fsync status=none; }
# Reads the next client's file.
read_back() { dd if="$place/mnt$1/$round-$(($1 % clients + 1))" of=/dev/null bs=1M status=none; }

say "$clients clients, cables of $mbit Mbit/s both ways, $megabytes MiB each: MB/s in all, and its share of the cables"
printf '%-16s %22s %22s\n' servers "write, fsync at end" "read another's"
used=0
for oss in $servers; do
    mkdir "$place/$oss"
    start_oss "$oss"
    on "$oss" "$gupfs" ost add "$place/$oss/disk" --mds "$mds" --key "$key" >/dev/null
    used=$((used + 1))
    [ "$used" = 3 ] && continue
    sleep 3 # until the metadata server knows its free space
    round=$used
    narrow=$((used < clients ? used : clients))
    share() { calc "\"%8.1f MB/s   %.2f\", $clients * $megabytes * 1.048576 / $1, $clients * $megabytes * 1.048576 / $1 / ($narrow * $mbit / 8)"; }
    wrote=$(at_once write)
    read=$(at_once read_back)
    printf '%-16s %22s %22s\n' "$used" "$(share "$wrote")" "$(share "$read")"
done
