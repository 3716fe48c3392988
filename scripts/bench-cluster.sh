#!/usr/bin/env bash
# Measures daemons over TCP on this host, beside the local file system in the same turn: streams of one and of four programs, creating
# files, unpacking. The cluster has one metadata server, two object servers with two targets each, one mount. Leaves nothing behind.
#
#   scripts/bench-cluster.sh PATH-OF-THE-BINARY [RUNS [OPTIONS OF gupfs mount]]
set -eu -o pipefail
export LC_ALL=C
gupfs=$(realpath "${1:?usage: bench-cluster.sh PATH-OF-THE-BINARY [RUNS [OPTIONS OF gupfs mount]]}")
runs=${2:-3}
shift $(($# < 2 ? $# : 2))
[ "$(id -u)" = 0 ] || { echo "this drops the page cache: run it as root" >&2; exit 1; }
place=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gupfs-bench.XXXXXX")
now() { date +%s.%N; }
calc() { awk "BEGIN { printf $1 }"; }

pids=()
clean_up() {
    status=$?
    trap - EXIT INT TERM
    for ((last = ${#pids[@]} - 1; last >= 0; last--)); do kill "${pids[last]}" 2>/dev/null && wait "${pids[last]}" 2>/dev/null; done
    rm -rf "$place"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# start ARGUMENTS: starts a daemon and waits until it reports that it is ready.
start() {
    local out=$place/${#pids[@]}.out
    "$gupfs" "$@" >"$out" 2>"$out.log" &
    pids+=($!)
    for _ in $(seq 200); do
        grep -q "ready in" "$out" && return
        kill -0 "${pids[-1]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "gupfs $1 did not get ready; it said:" >&2
    tail -n 20 "$out" "$out.log" >&2
    exit 1
}
mkdir "$place/gupfs" "$place/local"
start mds "$place/mds" --listen 127.0.0.1:0
mds=$(grep -o "served at [^, ]*" "$place/0.out" | cut -d' ' -f3) key=$place/mds/cluster.key
for oss in 1 2; do
    mkdir "$place/oss$oss"
    for disk in 1 2; do "$gupfs" ost add "$place/oss$oss/disk$disk" --mds "$mds" --key "$key" >/dev/null; done
    start oss "$place/oss$oss" --mds "$mds" --key "$key" --listen 127.0.0.1:0
done
start mount "$mds" "$place/gupfs" --key "$key" "$@"
sleep 3 # until the metadata server knows every target's free space

# A tree like that of METABENCH's untar test: 9,188 files in 459 directories, 75.8 MB.
mkdir "$place/tree"
for dir in $(seq 459); do
    mkdir "$place/tree/$dir"
    for file in $(seq $((dir <= 8 ? 21 : 20))); do head -c $(((dir * 7919 + file * 104729) % 16500)) /dev/zero >"$place/tree/$dir/$file"; done
done
tar -C "$place" -cf "$place/tree.tar" tree
rm -rf "$place/tree"

# beside COMMAND NUMBER: runs NUMBER copies of the command at once, each with its number; prints the seconds until the last has ended.
beside() {
    local begun jobs="" number
    begun=$(now)
    for number in $(seq "$2"); do "$1" "$number" & jobs="$jobs $!"; done
    for job in $jobs; do wait "$job"; done
    calc "\"%.3f\", $(now) - $begun"
}
write() { dd if=/dev/zero of="$on/stream$1" bs=1M count=$((4096 / programs)) conv=fsync status=none; }
read_back() { dd if="$on/stream$1" of=/dev/null bs=1M status=none; }
create() { local n; mkdir "$on/dir$1"; for n in $(seq 3000); do : >"$on/dir$1/file$n"; done; }
unpack() { tar -C "$on" -xf "$place/tree.tar"; }
remove() { rm -rf "$on/tree"; }

# Keeps the unfinished work of one workload (write-back, freeing removed files) out of the next figure.
rest() { sync; sleep 4; }

# ext4 without a journal does not reuse an inode's number for a minute after its file was removed, and skips it each time
# a file is created: the pause keeps this out of the figures, too.
forget_removed() {
    [ "$(stat -f -c %T "$place")" = ext2/ext3 ] && ! compgen -G "/proc/fs/jbd2/*" >/dev/null || return 0
    sleep 65
}

# The first touch of memory that a guest gave back to its host is slow for every process: this keeps it out of the figures.
touch_memory() {
    [ "$(df --output=avail -B1 /dev/shm | tail -1)" -gt $((6 << 30)) ] || return 0
    head -c 5G /dev/zero >/dev/shm/gupfs-bench.$$
    rm /dev/shm/gupfs-bench.$$
}

declare -A figures
# note WORK UNIT FIGURE
note() { figures[$1]="${figures[$1]:-} $3"; units[$1]=$2; }
declare -A units
works=()
for programs in 1 4; do works+=("write, $programs" "cold read, $programs" "create, $programs"); done
works+=("unpack" "rm -r")
for _ in $(seq "$runs"); do
    for where in local gupfs; do
        on=$place/$where
        for programs in 1 4; do
            touch_memory
            note "$where write, $programs" GB/s "$(calc "\"%.2f\", 4.294967296 / $(beside write $programs)")"
            sync
            sleep 1
            echo 3 >/proc/sys/vm/drop_caches
            note "$where cold read, $programs" GB/s "$(calc "\"%.2f\", 4.294967296 / $(beside read_back $programs)")"
            rm "$on"/stream*
            rest
            note "$where create, $programs" k/s "$(calc "\"%.2f\", 3 * $programs / $(beside create $programs)")"
            rm -rf "$on"/dir*
        done
        rest
        forget_removed
        note "$where unpack" s "$(beside unpack 1)"
        note "$where rm -r" s "$(beside remove 1)"
    done
done
echo "$(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $(date +%F), $runs runs; gupfs mount $*"
for work in "${works[@]}"; do
    printf '%-16s %-5s gupfs:%s   local:%s\n' "$work" "${units["gupfs $work"]}" "${figures["gupfs $work"]}" "${figures["local $work"]}"
done
