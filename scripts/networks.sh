# Builds a cluster in networks of its own on one machine. Scripts source this file after they have set:
#
#   gupfs    the binary          servers, mounts    names of hosts, in words          rate    of each cable, as tc(8) writes it; or empty
#   loopback    yes: all hosts are addresses of one network's loopback device; or not set
#   mds_hosts   names of the metadata servers' hosts, in words; or not set: one, "mds"
#
# Everything that it makes is under $place or has $tag in its name, and is removed when the script ends, however it ends.
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
mds_hosts=${mds_hosts:-mds}
hosts="$mds_hosts $servers $mounts"

[ "$(id -u)" = 0 ] || { echo "this makes network namespaces and mounts: run it as root" >&2; exit 1; }
place=$(mktemp -d "${TMPDIR:-/tmp}/gupfs-cluster.XXXXXX")
tag=gd$$ # in the names of everything made outside $place

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
note() { printf '   %s\n' "$*"; }
now() { date +%s.%N; }
calc() { awk "BEGIN { printf $1 }"; }

# Names what is left of the cluster, and fails if anything is.
nothing_is_left() {
    local left=0 host
    if [ -e "$place" ]; then echo "left behind: $place" >&2; left=1; fi
    if grep -F " $place/" /proc/self/mountinfo >&2; then echo "left behind: these mounts" >&2; left=1; fi
    if ip netns list | grep "^$tag-" >&2; then echo "left behind: these networks" >&2; left=1; fi
    for host in "${!pid[@]}"; do
        if [ -n "${pid[$host]}" ] && kill -0 "${pid[$host]}" 2>/dev/null; then echo "left behind: $host, process ${pid[$host]}" >&2; left=1; fi
    done
    return "$left"
}

declare -A pid # of gupfs on each host, and of other processes that a script has started and named
clean_up() {
    status=$?
    trap - EXIT INT TERM
    set +e # otherwise the first step that has nothing to do would be the last
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
    for host in "${!pid[@]}"; do
        [ -n "${pid[$host]}" ] && kill -9 "${pid[$host]}"
    done 2>/dev/null # the shell itself reports killed jobs, too
    wait 2>/dev/null
    for mnt in $mounts; do
        for _ in $(seq 50); do mountpoint -q "$place/$mnt" 2>/dev/null || break; sleep 0.1; done
        mountpoint -q "$place/$mnt" 2>/dev/null && umount -l "$place/$mnt" 2>/dev/null
    done
    # Whatever else was started there, daemons of daemons too.
    for host in hub $hosts; do ip netns pids "$tag-$host" 2>/dev/null | xargs -r kill -9 2>/dev/null; done
    for host in hub $hosts; do ip netns delete "$tag-$host" 2>/dev/null || true; done
    rm -rf "$place"
    nothing_is_left || { [ "$status" != 0 ] || status=1; }
    [ "$status" = 0 ] || printf '\nIt failed (exit code %s).\n' "$status" >&2
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# on HOST COMMAND: runs the command in that host's network. (Not `ip netns exec`, which makes a mount namespace as well.)
on() {
    local host=$1
    shift
    nsenter --net="$(network "$host")" "$@"
}
network() { if [ "${loopback:-}" = yes ]; then echo "/run/netns/$tag-hub"; else echo "/run/netns/$tag-$1"; fi; }

address() {
    local number=1 host
    for host in $hosts; do
        [ "$host" = "$1" ] && { if [ "${loopback:-}" = yes ]; then echo "127.0.0.$number"; else echo "10.77.0.$number"; fi; return; }
        number=$((number + 1))
    done
}

# slow NETNS DEVICE: limits outgoing packets of the device to the rate of a link.
slow() { [ -z "${rate:-}" ] || tc -n "$tag-$1" qdisc add dev "$2" root tbf rate "$rate" burst 256k latency 100ms; }

# Every host has one link to a switch (or, with `loopback`, there are no links).
wire() {
    local host number=0
    ip netns add "$tag-hub"
    if [ "${loopback:-}" = yes ]; then ip -n "$tag-hub" link set lo up; return; fi
    ip -n "$tag-hub" link add switch type bridge
    ip -n "$tag-hub" link set switch up
    for host in $hosts; do
        number=$((number + 1))
        ip netns add "$tag-$host"
        ip -n "$tag-hub" link add "port$number" type veth peer name eth0 netns "$tag-$host"
        ip -n "$tag-hub" link set "port$number" master switch up
        ip -n "$tag-$host" address add "$(address "$host")/24" dev eth0
        ip -n "$tag-$host" link set eth0 up
        slow hub "port$number"
        slow "$host" eth0
        ip -n "$tag-$host" link set lo up
    done
}

# kill_process NAME: kills what pid[NAME] names, and waits for its end.
kill_process() {
    kill -9 "${pid[$1]}"
    wait "${pid[$1]}" 2>/dev/null || true
    pid[$1]=
}

# A host whose cable is pulled goes on, but nothing that it sends arrives. A host that goes dark is dead, too: its cable is pulled first, so that
# not even the end of its connections arrives.
port() { echo "port${1##*.}"; }
pull_cable() { ip -n "$tag-hub" link set "$(port "$(address "$1")")" down; }
go_dark() {
    pull_cable "$1"
    kill_process "$1"
}
plug_in() { ip -n "$tag-hub" link set "$(port "$(address "$1")")" up; }

# start HOST ARGUMENTS: starts gupfs on that host and waits until it reports that it is ready.
start() {
    local host=$1 lines
    shift
    touch "$place/$host.out"
    lines=$(grep -c "ready in" "$place/$host.out" || true)
    # Not through `on`: the recorded process id must be that of gupfs itself.
    nsenter --net="$(network "$host")" "$gupfs" "$@" >>"$place/$host.out" 2>>"$place/$host.log" &
    pid[$host]=$!
    for _ in $(seq 600); do
        [ "$(grep -c "ready in" "$place/$host.out" || true)" -gt "$lines" ] && return
        kill -0 "${pid[$host]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "gupfs $1 on $host did not get ready; it said:" >&2
    tail -n 20 "$place/$host.out" "$place/$host.log" >&2
    exit 1
}

# The addresses of all metadata servers, separated by commas, as the commands take them.
mds=$(for host in $mds_hosts; do address "$host"; done | paste -s -d ,) key=$place/store/cluster.key
start_mds() { start mds mds "$place/store" --listen "$mds:7700" --root-squash false; }
start_oss() { start "$1" oss "$place/$1" --mds "$mds" --key "$key" --listen "$(address "$1"):7701"; }
# start_mount HOST [FLAGS]
start_mount() { start "$1" mount "$mds" "$place/$1" --key "$key" "${@:2}"; }
