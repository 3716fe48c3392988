#!/usr/bin/env bash
# Measures what mirrored files cost: files without redundancy and with `mirror:2`, in turns, in tmpfs. Prints medians with their spread, and
# the ratios of figures of one turn. Leaves nothing behind.
#
#   scripts/bench-mirrors.sh PATH-OF-THE-BINARY [PART ...]
#
#   one        one machine: a large file by one client: write, cold read (a client that has cached nothing), warm read
#   peer       the same beside GlusterFS with two copies (a volume of two bricks in tmpfs, all on this machine), if Debian's glusterfs-server and
#              glusterfs-client are installed
#   link       one client over links of $MBIT Mbit/s, four object servers
#   links      four clients over such links at once, each with one program, then with four, that write and read a file each; a mirrored byte
#              crosses two links of object servers, so half is the most that is possible
#   latency    write of 4 KiB until it is answered (from the mount's memory, and by the servers), append of 4 KiB with fsync
#   away       cold stream and random 4 KiB reads while one of two object servers is away, beside the same with both
#   rebuild    an OST is lost: bytes a second until redundancy is whole again, and what a program writes a second meanwhile
#   rebuild-link  the same over links of $MBIT Mbit/s
#   pause      the longest write and read when an object server is killed, falls silent, or is stopped in order
#
# Without a part: all. TURNS (3), SIZE (1024, MiB of a large file), MBIT (400), CALLS (2000, of each kind of small call), UNIT (stripe unit of the
# mirrored files; the default of `gupfs layout set`): environment variables.
set -eu -o pipefail
export LC_ALL=C
gupfs=$(realpath "${1:?usage: bench-mirrors.sh PATH-OF-THE-BINARY [PART ...]}")
shift
script=$(realpath "$0") project=$(realpath "$(dirname "$0")/..")
export TURNS=${TURNS:-3} SIZE=${SIZE:-1024} MBIT=${MBIT:-400} CALLS=${CALLS:-2000}

all="one peer link links latency away rebuild rebuild-link pause"
if [ "${1:-}" != --inside ]; then
    for part in "$@"; do
        [[ " $all " = *" $part "* ]] || { echo "bench-mirrors.sh: '$part' is not one of $all" >&2; exit 2; }
    done
    free=$(df --output=avail -BM /dev/shm | tail -n 1 | tr -dc 0-9)
    [ "$free" -gt $((SIZE * 6)) ] || { echo "/dev/shm has $free MiB, and SIZE=$SIZE needs $((SIZE * 6))" >&2; exit 1; }
    commit=$(git -C "$project" rev-parse --short HEAD 2>/dev/null || echo unknown)
    [ -z "$(git -C "$project" status --porcelain --untracked-files=no 2>/dev/null)" ] || commit="$commit and changes"
    echo "$(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), $(date +%F), commit $commit"
    echo "$("$gupfs" --version); stores in tmpfs; $TURNS turns: the median (least – most); files of $SIZE MiB, $CALLS small calls of each kind"
    for part in ${*:-$all}; do "$script" "$gupfs" --inside "$part"; done
    exit
fi
part=$2

servers="oss1 oss2 oss3 oss4" mounts="mnt1 mnt2" loopback=yes rate=
case $part in
    link) loopback=no rate=${MBIT}mbit ;;
    links) loopback=no rate=${MBIT}mbit mounts="mnt1 mnt2 mnt3 mnt4" ;;
    latency | peer) servers="oss1 oss2" ;;
    away) servers="oss1 oss2" mounts="mnt1" ;;
    rebuild) mounts="mnt1" ;;
    rebuild-link) loopback=no rate=${MBIT}mbit mounts="mnt1" ;;
esac
export TMPDIR=/dev/shm
. "$project/scripts/networks.sh"
clients=$(wc -w <<<"$mounts")
failover() { python3 "$project/scripts/failover.py" "$@"; }

take_status() {
    local json
    json=$(on mds "$gupfs" status "$place/store" --json)
    eval "$(failover status <<<"$json")"
}
wait_until_whole() {
    local good=0
    while [ "$good" -lt 2 ]; do
        take_status
        if [ "$up" = "$targets" ] && [ "$left" = 0 ] && [ "$pending" = 0 ]; then good=$((good + 1)); else good=0; fi
        sleep 0.1
    done
}
fresh() {
    "$gupfs" stop "$place/$1" >/dev/null
    wait "${pid[$1]}"
    start_mount "$@"
}

wire
start_mds
number=0
for oss in $servers; do
    mkdir "$place/$oss"
    start_oss "$oss"
    on "$oss" "$gupfs" ost add "$place/$oss/disk0" --mds "$mds" --key "$key" >/dev/null
    number=$((number + 1))
done
for mnt in $mounts; do
    mkdir "$place/$mnt"
    start_mount "$mnt"
done
mkdir "$place/mnt1/plain" "$place/mnt1/mirrored"
for _ in $(seq 60); do # until the metadata server knows the space of all targets
    take_status
    [ "$up" = "$number" ] && "$gupfs" layout set "$place/mnt1/mirrored" --redundancy mirror:2 ${UNIT:+--unit "$UNIT"} >"$place/layout" 2>&1 && break
    sleep 0.5
done
"$gupfs" layout get "$place/mnt1/mirrored" | grep -q copies || { cat "$place/layout" >&2; exit 1; }

declare -A figures=() units=()
declare -A directory=([plain]=plain [mirror:2]=mirrored)
works=() ratios=()
# note_figure WORK UNIT FIGURE: one more figure of this work
note_figure() {
    [ -n "${units[$1]:-}" ] || works+=("$1")
    units[$1]=$2 figures[$1]="${figures[$1]:-} $3"
}
# ratio LABEL WORK WORK: the first work's figures are divided by the second's, turn by turn
ratio() { ratios+=("$1|$2|$3"); }
# The same of the capacity of the links.
share() { figures["$2: share"]=$(for figure in ${figures[$1]}; do calc "\" %.3f\", $figure / ($3 * $MBIT / 8)"; done) shares+=("$2"); }
shares=()
# summary NUMBERS: the median (least – most)
summary() {
    tr ' ' '\n' <<<"$*" | grep . | sort -g | awk '
        function show(x) { return sprintf(x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f", x) }
        { v[NR] = $1 } END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; printf "%s (%s – %s)", show(m), show(v[1]), show(v[NR]) }'
}
in_lines() { tr ' ' '\n' <<<"${figures[$1]# }"; }
report() {
    local work label above below
    say "$1"
    for work in "${works[@]}"; do printf '%-52s %s %s\n' "$work" "$(summary "${figures[$work]}")" "${units[$work]}"; done
    for work in ${shares[@]+"${shares[@]}"}; do printf '%-52s %s\n' "$work" "$(summary "${figures["$work: share"]}")"; done
    for ratio in "${ratios[@]}"; do
        IFS='|' read -r label above below <<<"$ratio"
        printf '%-52s %s\n' "$label" "$(summary "$(paste <(in_lines "$above") <(in_lines "$below") | awk '{print $1 / $2}')")"
    done
}
# plain_and_mirrored WORK...: the ratios of these works
plain_and_mirrored() {
    local work
    for work in "$@"; do ratio "$work: mirror:2 ÷ plain" "$work: mirror:2" "$work: plain"; done
}
seconds() { local begun; begun=$(now); "$@" >&2; calc "\"%.4f\", $(now) - $begun"; }
rate_of() { calc "\"%.3f\", $1 * 1.048576 / $2"; } # MB/s of MiB in seconds
write() { dd if=/dev/zero of="$1" bs=1M count="$SIZE" conv=fsync status=none; }
read_back() { dd if="$1" of=/dev/null bs=1M status=none; }
# The first touch of memory that a guest gave back to its host is slow: this keeps it out of the figures.
head -c $((SIZE * 4))M /dev/zero >"$place/touched"
rm "$place/touched"

one() {
    local turn layout file
    for turn in $(seq "$TURNS"); do
        for layout in plain mirror:2; do
            file=${directory[$layout]}/f$turn
            note_figure "write, fsync at the end: $layout" MB/s "$(rate_of "$SIZE" "$(seconds write "$place/mnt1/$file")")"
            note_figure "cold read: $layout" MB/s "$(rate_of "$SIZE" "$(seconds read_back "$place/mnt2/$file")")"
            note_figure "warm read: $layout" MB/s "$(rate_of "$SIZE" "$(seconds read_back "$place/mnt2/$file")")"
            rm "$place/mnt1/$file"
            sleep 2 # until the objects are removed
        done
    done
    plain_and_mirrored "write, fsync at the end" "cold read" "warm read"
    report "One machine, over the loopback device: one client, four object servers"
}

# Its daemon knows a machine's own names only; "127.0.0.2" is one, and not refused as a name of the loopback device.
start_peer() {
    local volume=127.0.0.2:$place
    mkdir "$place/peer" "$place/peer-brick1" "$place/peer-brick2" "$place/peer-work"
    cat >"$place/glusterd.vol" <<EOF
volume management
    type mgmt/glusterd
    option working-directory $place/peer-work
    option run-directory $place/peer-work
    option glusterd-sockfile $place/glusterd.sock
    option transport-type socket
    option transport.socket.listen-port 24007
end-volume
EOF
    on mds glusterd -N -f "$place/glusterd.vol" -l "$place/glusterd.log" >"$place/glusterd.out" 2>&1 &
    pid[peer]=$!
    for _ in $(seq 100); do [ -S "$place/glusterd.sock" ] && break; sleep 0.1; done
    volume_command create peer replica 2 "$volume/peer-brick1" "$volume/peer-brick2" force && volume_command start peer
    on mds glusterfs -N --volfile-server=127.0.0.2 --volfile-id=peer -l "$place/peer.log" "$place/peer" &
    for _ in $(seq 100); do mountpoint -q "$place/peer" && return; sleep 0.1; done
    echo "GlusterFS did not start:" >&2
    tail -n 20 "$place/glusterd.out" "$place/glusterd.log" "$place/peer.log" >&2
    return 1
}
volume_command() { on mds gluster --glusterd-sock="$place/glusterd.sock" --mode=script volume "$@"; }
stop_peer() {
    umount "$place/peer"
    volume_command stop peer force
    # Its daemon is the last process in this network besides ours.
    kill "${pid[peer]}"
    wait "${pid[peer]}" || true
}
peer() {
    local turn
    if ! command -v glusterd >/dev/null || ! command -v glusterfs >/dev/null; then
        say "Beside GlusterFS: not measured, because Debian's glusterfs-server and glusterfs-client are not installed"
        return
    fi
    start_peer
    for turn in $(seq "$TURNS"); do
        note_figure "write, fsync at the end: mirror:2" MB/s "$(rate_of "$SIZE" "$(seconds write "$place/mnt1/mirrored/f$turn")")"
        note_figure "warm read: mirror:2" MB/s "$(rate_of "$SIZE" "$(seconds read_back "$place/mnt1/mirrored/f$turn")")"
        rm "$place/mnt1/mirrored/f$turn"
        sleep 2
        note_figure "write, fsync at the end: GlusterFS" MB/s "$(rate_of "$SIZE" "$(seconds write "$place/peer/f$turn")")"
        note_figure "warm read: GlusterFS" MB/s "$(rate_of "$SIZE" "$(seconds read_back "$place/peer/f$turn")")"
        rm "$place/peer/f$turn"
        sleep 2
    done
    stop_peer
    ratio "write, fsync at the end: mirror:2 ÷ GlusterFS" "write, fsync at the end: mirror:2" "write, fsync at the end: GlusterFS"
    ratio "warm read: mirror:2 ÷ GlusterFS" "warm read: mirror:2" "warm read: GlusterFS"
    report "One machine, two copies each: one client, two object servers; GlusterFS $(glusterd --version | awk 'NR == 1 {print $2}') with two bricks"
}

# at_once COMMAND: runs it for each client with its number, all at once
at_once() {
    local jobs="" number
    for number in $(seq "$clients"); do "$1" "$number" & jobs="$jobs $!"; done
    for job in $jobs; do wait "$job" || return 1; done
}
# Of each client as many as $programs; together they write SIZE MiB.
write_own() {
    local jobs="" number
    for number in $(seq "$programs"); do
        dd if=/dev/zero of="$place/mnt$1/$file-$1-$number" bs=1M count=$((SIZE / programs)) conv=fsync status=none & jobs="$jobs $!"
    done
    for job in $jobs; do wait "$job" || return 1; done
}
read_next() {
    local jobs="" number
    for number in $(seq "$programs"); do read_back "$place/mnt$1/$file-$(($1 % clients + 1))-$number" & jobs="$jobs $!"; done
    for job in $jobs; do wait "$job" || return 1; done
}
# over_links CLIENTS-THAT-WORK [PROGRAMS-OF-EACH]: writes and cold reads of all at once
over_links() {
    local turn layout programs=${2:-1}
    figures=() units=() works=() ratios=() shares=()
    for turn in $(seq "$TURNS"); do
        for layout in plain mirror:2; do
            file=${directory[$layout]}/f$turn
            if [ "$1" = 1 ]; then
                note_figure "write, fsync at the end: $layout" MB/s "$(rate_of "$SIZE" "$(seconds write "$place/mnt1/$file")")"
                note_figure "cold read: $layout" MB/s "$(rate_of "$SIZE" "$(seconds read_back "$place/mnt2/$file")")"
                rm "$place/mnt1/$file"
            else
                note_figure "write, fsync at the end: $layout" MB/s "$(rate_of $((SIZE * clients)) "$(seconds at_once write_own)")"
                note_figure "cold read: $layout" MB/s "$(rate_of $((SIZE * clients)) "$(seconds at_once read_next)")"
                rm "$place/mnt1/$file"-*
            fi
            sleep 2
        done
    done
    plain_and_mirrored "write, fsync at the end" "cold read"
    for work in "write, fsync at the end" "cold read"; do
        for layout in plain mirror:2; do share "$work: $layout" "$work: $layout ÷ links" "$1"; done
    done
}
link() { over_links 1; report "One client over a link of $MBIT Mbit/s ($(calc "$MBIT / 8") MB/s), four object servers"; }
links() {
    local programs what="over links of $MBIT Mbit/s ($(calc "4 * $MBIT / 8") MB/s in all), four object servers"
    for programs in 1 4; do
        over_links 4 "$programs"
        report "Four clients, programs of each: $programs, $what"
    done
}

latency() {
    local turn layout
    printf '[mount]\nwrite_behind = false\n' >"$place/through.toml"
    fresh mnt2 --config "$place/through.toml"
    for turn in $(seq "$TURNS"); do
        for layout in plain mirror:2; do
            note_figure "write 4 KiB, answered by the mount: $layout" µs "$(failover latency write "$place/mnt1/${directory[$layout]}/w$turn" "$CALLS")"
            note_figure "write 4 KiB, answered by the servers: $layout" µs "$(failover latency write "$place/mnt2/${directory[$layout]}/t$turn" "$CALLS")"
            note_figure "append 4 KiB and fsync: $layout" µs "$(failover latency append "$place/mnt1/${directory[$layout]}/a$turn" "$CALLS")"
        done
    done
    plain_and_mirrored "write 4 KiB, answered by the mount" "write 4 KiB, answered by the servers" "append 4 KiB and fsync"
    report "Latency on one machine: medians of $CALLS calls of one program, two object servers"
}

away() {
    local turn state file=$place/mnt1/mirrored/f
    write "$file"
    for turn in $(seq "$TURNS"); do
        for state in both away; do
            if [ "$state" = away ]; then
                kill -9 "${pid[oss$((turn % 2 + 1))]}"
                wait "${pid[oss$((turn % 2 + 1))]}" 2>/dev/null || true
                sleep 6 # until the metadata server knows that it is silent
            fi
            fresh mnt1
            failover latency read "$file" 100 >/dev/null # the first reads learn which server is away
            note_figure "random read 4 KiB: $state" µs "$(failover latency read "$file" "$CALLS")"
            note_figure "cold stream: $state" MB/s "$(rate_of "$SIZE" "$(seconds read_back "$file")")"
        done
        start_oss "oss$((turn % 2 + 1))"
        wait_until_whole
    done
    ratio "cold stream: away ÷ both" "cold stream: away" "cold stream: both"
    ratio "reads a second: away ÷ both" "random read 4 KiB: both" "random read 4 KiB: away"
    report "One machine, a mirrored file, two object servers: both serve, or one is away"
}

# rebuild WHERE
rebuild() {
    local turn lost oss copied_before t took written alone meanwhile=$place/mnt1/mirrored/meanwhile
    for number in $(seq 8); do dd if=/dev/urandom of="$place/mnt1/mirrored/f$number" bs=1M count=$((SIZE / 4)) conv=fsync status=none; done
    for turn in $(seq "$TURNS"); do
        oss=oss$((turn % 4 + 1))
        lost=$(on mds "$gupfs" status "$place/store" --json | failover ost_at "$(address "$oss"):7701")
        kill -9 "${pid[$oss]}"
        wait "${pid[$oss]}" 2>/dev/null || true
        rm -rf "$place/$oss"/disk*
        start_oss "$oss"
        on "$oss" "$gupfs" ost add "$place/$oss/disk$turn" --mds "$mds" --key "$key" >/dev/null
        sleep 3 # until the metadata server knows its space
        take_status
        copied_before=$copied
        alone=$(failover writes "$meanwhile" 3)
        failover writes "$meanwhile" until "$place/whole" >"$place/written" &
        written=$!
        t=$(now)
        on mds "$gupfs" ost lost "$lost" --mds "$mds" --key "$key" --yes >/dev/null
        wait_until_whole
        took=$(calc "\"%.2f\", $(now) - $t")
        touch "$place/whole"
        wait "$written"
        rm "$place/whole"
        note_figure "a program writes, before" MB/s "$alone"
        note_figure "a program writes, meanwhile" MB/s "$(cat "$place/written")"
        note_figure "time until redundancy is whole" s "$took"
        note_figure "bytes copied" MB "$(calc "\"%.1f\", ($copied - $copied_before) / 1e6")"
        note_figure "rate" MB/s "$(calc "\"%.1f\", ($copied - $copied_before) / 1e6 / $took")"
    done
    ratio "a program writes: meanwhile ÷ before" "a program writes, meanwhile" "a program writes, before"
    report "$1, four object servers, $((SIZE * 2)) MiB in 8 mirrored files: one OST is declared lost (with the wait of up to 2 s until a round begins)"
}

pause() {
    local turn how oss longest
    for number in 1 2; do write "$place/mnt1/mirrored/f$number"; done
    for turn in $(seq "$TURNS"); do
        for how in killed silent stopped; do
            oss=oss$((turn % 4 + 1))
            fresh mnt2
            failover pause "$place/mnt1/mirrored/f1" "$place/mnt2/mirrored/f2" 10 >"$place/longest" &
            longest=$!
            sleep 2
            case $how in
                killed) kill -9 "${pid[$oss]}" ;;
                silent) kill -STOP "${pid[$oss]}" ;;
                stopped) kill -TERM "${pid[$oss]}" ;;
            esac
            wait "$longest"
            [ "$how" != silent ] || kill -9 "${pid[$oss]}"
            wait "${pid[$oss]}" 2>/dev/null || true
            start_oss "$oss"
            wait_until_whole
            note_figure "longest write, an object server is $how" s "$(cut -d' ' -f1 "$place/longest")"
            note_figure "longest read, an object server is $how" s "$(cut -d' ' -f2 "$place/longest")"
        done
    done
    report "One machine, four object servers: pauses of programs"
}

case $part in
    rebuild) rebuild "One machine" ;;
    rebuild-link) rebuild "Links of $MBIT Mbit/s ($(calc "$MBIT / 8") MB/s)" ;;
    *) "$part" ;;
esac
