#!/usr/bin/env bash
# Runs the plan `seeds` on a local directory, on gupfs (`gupfs up`, all in one process) and on a peer that Debian has: GlusterFS, with a
# brick and a mount on this host. All three are on the same disk. Then writes the page with the results. Leaves nothing behind but results.
#
#   scripts/bench-seeds.sh PATH-OF-THE-BINARY [OPTIONS OF gupfs bench run]
#
# PLAN: another plan than `seeds`. BENCH_DIR: the directory for all three file systems (/var/tmp). BENCH_OUT: the directory for results and
# page (bench/results).
set -eu -o pipefail
export LC_ALL=C
gupfs=$(realpath "${1:?usage: bench-seeds.sh PATH-OF-THE-BINARY [OPTIONS OF gupfs bench run]}")
shift
plan=${PLAN:-seeds}
out=${BENCH_OUT:-bench/results}
mkdir -p "$out"
name=$out/$(date -u +%F)-$(basename "$plan" .toml)
[ -e "$name.jsonl" ] && name=$name-$(date -u +%H%M%S)
place=$(mktemp -d "${BENCH_DIR:-/var/tmp}/gupfs-seeds.XXXXXX")
mkdir "$place/local" "$place/mnt" "$place/brick" "$place/peer"

pids=()
clean_up() {
    status=$?
    trap - EXIT INT TERM
    set +e
    if mountpoint -q "$place/peer"; then umount "$place/peer" || umount -l "$place/peer"; fi
    # The peer's processes end with code 15 on SIGTERM; this is not a failure of the script.
    for ((last = ${#pids[@]} - 1; last >= 0; last--)); do kill "${pids[last]}" 2>/dev/null && wait "${pids[last]}" 2>/dev/null; done
    # rm -rf would remove the files of a file system that is still mounted: stop instead.
    for each in mnt peer; do ! mountpoint -q "$place/$each" || { echo "$place/$each is still mounted" >&2; exit 1; }; done
    rm -rf "$place"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# wait_for OUTPUT-FILE COMMAND…: waits until the command succeeds, for at most 10 s, as long as the last started process lives. If the
# command does not succeed, prints the end of the file.
wait_for() {
    local said=$1
    shift
    for _ in $(seq 200); do
        "$@" && return
        kill -0 "${pids[-1]}" 2>/dev/null || break
        sleep 0.05
    done
    tail -n 20 "$said" >&2
    return 1
}

"$gupfs" up "$place/store" --mount "$place/mnt" >"$place/up.out" 2>&1 &
pids+=($!)
wait_for "$place/up.out" mountpoint -q "$place/mnt" || { echo "gupfs up did not get ready" >&2; exit 1; }
targets=(--target "local=$place/local" --target "gupfs=$place/mnt")

install_peer() {
    command -v glusterfsd >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends glusterfs-server glusterfs-client >/dev/null 2>&1
}

# The translators are those of a volume that the peer creates itself; its daemon, which would choose names and ports, does not run.
start_peer() {
    local port
    port=$((24200 + $$ % 1000))
    cat >"$place/brick.vol" <<END
volume posix
    type storage/posix
    option directory $place/brick
end-volume
volume locks
    type features/locks
    subvolumes posix
end-volume
volume brick
    type performance/io-threads
    subvolumes locks
end-volume
volume server
    type protocol/server
    option transport-type tcp
    option transport.address-family inet
    option transport.socket.bind-address 127.0.0.1
    option transport.socket.listen-port $port
    option auth.addr.brick.allow 127.0.0.1
    subvolumes brick
end-volume
END
    cat >"$place/client.vol" <<END
volume client
    type protocol/client
    option transport-type tcp
    option transport.address-family inet
    option remote-host 127.0.0.1
    option remote-port $port
    option remote-subvolume brick
end-volume
END
    local below=client above
    for above in write-behind read-ahead io-cache quick-read md-cache; do
        printf 'volume %s\n    type performance/%s\n    subvolumes %s\nend-volume\n' "$above" "$above" "$below" >>"$place/client.vol"
        below=$above
    done
    glusterfsd -N -f "$place/brick.vol" -l "$place/brick.log" &
    pids+=($!)
    sleep 1
    glusterfs -N -f "$place/client.vol" -l "$place/peer.log" "$place/peer" &
    pids+=($!)
    wait_for "$place/peer.log" mountpoint -q "$place/peer" && timeout 10 ls "$place/peer" >/dev/null
}

if install_peer && start_peer; then
    targets+=(--target "glusterfs=$place/peer")
else
    echo "There is no peer: Debian's glusterfs-server and glusterfs-client are missing or do not start here. The plan runs without." >&2
fi

# The ceiling is the rate of the disk that all three share; no network is between.
ceilings=()
if "$gupfs" bench baseline --help >/dev/null 2>&1 &&
    "$gupfs" bench baseline --disk "$place" --target local --out "$place/local.jsonl" >"$place/baseline.out" 2>&1; then
    grep '"kind":"ceiling"' "$place/local.jsonl" >"$name.ceilings.jsonl"
    for target in gupfs glusterfs; do
        [[ " ${targets[*]} " != *" $target="* ]] ||
            grep '"kind":"ceiling"' "$place/local.jsonl" | sed "s/\"target\":\"local\"/\"target\":\"$target\"/" >>"$name.ceilings.jsonl"
    done
    ceilings=("$name.ceilings.jsonl")
else
    echo "The disk was not measured by itself: the report says nothing of ceilings." >&2
fi

status=0
"$gupfs" bench run "$plan" "${targets[@]}" --out "$name.jsonl" "$@" || status=$?
# The report shows all results that exist; its page names missing runs.
"$gupfs" bench report "$name.jsonl" "${ceilings[@]}" --out "$name.html"
exit "$status"
