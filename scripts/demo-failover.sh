#!/usr/bin/env bash
# Demonstrates that a cluster with mirrored files and copies of the metadata survives the loss of any one server: three metadata servers with
# a member of etcd beside each, four object servers with two targets each and three mounts, each in a network of its own. Under load an object
# server's host goes dark, a disk is emptied, the owner of the metadata is killed, cut off, frozen and moved, its host loses power together
# with etcd's leader, all of etcd is away, and bits are flipped. Programs see pauses alone, and every name and byte is compared through another
# mount, also with each object server switched off in turn. Leaves nothing behind.
#
#   scripts/demo-failover.sh PATH-OF-THE-BINARY
#
# The binary needs the feature `etcd`, and the host Debian's etcd 3.4. TMPDIR: the directory for all of it, 3 GB; without it /dev/shm if that
# is large enough, else /tmp.
set -eu -o pipefail
gupfs=$(realpath "${1:?usage: demo-failover.sh PATH-OF-THE-BINARY}")
project=$(realpath "$(dirname "$0")/..")
mds_hosts="mds1 mds2 mds3" servers="oss1 oss2 oss3 oss4" mounts="mnt1 mnt2 mnt3"
pause_most=5 # seconds: no call of a program takes longer because of a lost object server, or a lost owner of the metadata
flips=400
if [ -z "${TMPDIR:-}" ] && [ "$(df --output=avail -B1 /dev/shm 2>/dev/null | tail -n 1)" -gt $((6 << 30)) ]; then export TMPDIR=/dev/shm; fi
. "$project/scripts/networks.sh"
begun=$(now)
since() { calc "\"%.1f\", $(now) - $1"; }
megabytes() { calc "\"%.1f MB\", $1 / 1e6"; }
fail() { echo "$*" >&2; exit 1; }

. "$project/scripts/verifying-programs.sh"
. "$project/scripts/metadata-hosts.sh"
. "$project/scripts/owner-losses.sh"

# Sets variables up, targets, left, copied, … to the numbers of the owner's `gupfs status`.
take_status() {
    local json
    until take_copies && json=$(status --json) && json=$(failover status <<<"$json" 2>/dev/null); do
        programs_work
        sleep 0.2 # the metadata have just changed their owner
    done
    eval "$json"
}
status() { on "$admin" "$gupfs" status "$(address "$owner"):7700" --key "$key" "$@"; }

# Waits until every target is up and every file has all its copies, three times in a row (a file that is just being written may be late); sets `whole_in` to the seconds since $1.
wait_until_whole() {
    local good=0 first=
    while [ "$good" -lt 3 ]; do
        take_status
        if [ "$up" = "$targets" ] && [ "$left" = 0 ] && [ "$pending" = 0 ]; then
            [ "$good" != 0 ] || first=$(now)
            good=$((good + 1))
        else
            good=0
        fi
        programs_work
        [ "$(calc "\"%d\", $(now) - $1")" -lt 120 ] || { status >&2; fail "redundancy is not whole after 120 s"; }
        sleep 0.5
    done
    whole_in=$(calc "\"%.1f\", $first - $1")
}

fresh() {
    "$gupfs" stop "$place/$1" >/dev/null
    wait "${pid[$1]}"
    pid[$1]=
    start_mount "$1"
}
stop_server() {
    kill "${pid[$1]}"
    wait "${pid[$1]}" || { tail "$place/$1.log" >&2; fail "$1 did not stop cleanly"; }
    pid[$1]=
}
add_target() { on "$1" "$gupfs" ost add "$place/$1/$2" --mds "$mds" --key "$key" | tee -a "$place/added" | sed "s|'$place/|   '|"; }

say "Eleven networks: one switch, ten hosts"
wire
note "$(for host in $hosts; do printf '%s %s  ' "$host" "$(address "$host")"; done)"

say "Three metadata servers with a member of etcd each, four object servers with two targets each, three mounts"
for host in $mds_hosts; do start_etcd "$host"; done
wait_for_etcd
for host in $mds_hosts; do start_metadata "$host"; done
wait_until_copies_count "$(now)"
show_copies
for oss in $servers; do
    mkdir "$place/$oss"
    start_oss "$oss"
    for disk in disk0 disk1; do add_target "$oss" "$disk"; done
done
for mnt in $mounts; do
    mkdir "$place/$mnt"
    start_mount "$mnt"
done
mkdir "$place/mnt1/mirrored"
for _ in $(seq 60); do # until the metadata server knows the space of all targets
    take_status
    [ "$up" = 8 ] && "$gupfs" layout set "$place/mnt1/mirrored" --redundancy mirror:2 >"$place/layout" 2>&1 && break
    sleep 0.5
done
grep . "$place/layout" | sed 's/^/   /'

say "A source tree and large files, copied on all three mounts at once"
original=$place/original
mkdir "$original"
for part in crates/mds crates/store crates/fuse crates/gupfs docs tools/verify; do
    mkdir -p "$original/$part"
    cp -r "$project/$part/." "$original/$part/"
done
for number in 1 2 3; do head -c 24000000 /dev/urandom >"$original/large$number"; done
(cd "$original" && find . -type f -print0 | xargs -0 sha256sum | sort -k 2 >"$place/original.sums")
files=$(wc -l <"$place/original.sums")
bytes=$(cd "$original" && find . -type f -printf '%s\n' | awk '{s += $1} END {print s}')
for mnt in $mounts; do
    sed "s|  \./|  $place/$mnt/mirrored/from-mnt1/|" "$place/original.sums" >"$place/$mnt.tree"
    sed "s|  \./|  from-$mnt/|" "$place/original.sums" >>"$place/sums"
    copied "from-$mnt"
done
t=$(now) copies=
for mnt in $mounts; do
    cp -r "$original" "$place/$mnt/mirrored/from-$mnt" &
    copies="$copies $!"
done
for copy in $copies; do wait "$copy" || fail "a copy failed"; done
note "3 × $files files, 3 × $(megabytes "$bytes"), each byte on two servers, in $(since "$t") s"

say "Programs on all mounts rewrite records and files, and compare what they and the others have written"
start_loads
sleep 4
t=$(calc "\"%.3f\", $(now) - 3")
pauses "$t"

say "1. The host of oss1 goes dark: its cable is pulled and its process killed, nothing says goodbye"
t=$(now)
go_dark oss1
cp -r "$original" "$place/mnt2/mirrored/from-dark" || fail "a copy failed"
sed "s|  \./|  from-dark/|" "$place/original.sums" >>"$place/sums"
copied from-dark
note "$files more files copied meanwhile in $(since "$t") s"
while [ "$(calc "$(now) - $t < 15")" = 1 ]; do programs_work; sleep 0.5; done
pauses "$t"
take_status
if [ "$left" != 0 ]; then note "$left files lack a copy of their last writes"; elif [ "$pending" = 1 ]; then note "files lack a copy of their last writes; their resync waits for oss1"; fi
before=$copied compared_before=$compared

say "   … and returns"
t=$(now)
plug_in oss1
start_oss oss1
wait_until_whole "$t"
note "redundancy is whole again $whole_in s later: $(megabytes $((copied - before))) moved, of $(megabytes $((compared - compared_before))) compared"
pauses "$t"

say "2. oss2 is killed, and one of its two disks is empty when it returns"
lost=$(sed -n "s|.*/oss2/disk0' is now ost\([0-9]*\).*|\1|p" "$place/added")
t=$(now)
kill_process oss2
find "$place/oss2/disk0" -mindepth 1 -delete
sleep 1
start_oss oss2
note "its other disk serves $(since "$t") s later; ost$lost stays away, and is declared lost:"
take_status
before=$copied compared_before=$compared replaced_before=$replaced
declared=$(now)
on "$admin" "$gupfs" ost lost "$lost" --mds "$mds" --key "$key" --yes | sed 's/^/   /'
add_target oss2 disk2
wait_until_whole "$declared"
note "redundancy is whole again $whole_in s after that: $((replaced - replaced_before)) files got a copy on another target," \
    "$(megabytes $((copied - before))) moved, of $(megabytes $((compared - compared_before))) compared"
pauses "$t"

say "3. The owner of the metadata is killed, and started again"
owner_is_killed
say "4. The owner's cable is pulled: its processes go on, and nothing that they send arrives"
owner_is_cut_off
say "5. The host of the owner and of etcd's leader loses power: it goes dark with both"
owner_loses_power_with_etcd_leader
say "6. The owner is frozen for ten seconds, and wakes"
owner_is_frozen
say "7. An administrator moves the metadata"
metadata_are_moved
say "8. All of etcd is away for eight seconds"
etcd_is_away

stop_loads
load_sums
t=$(now)
compare mnt3
note "every byte of $(wc -l <"$place/sums") files is as it was written, read through mnt3 ($(since "$t") s)"

say "9. $flips bits are flipped in what oss3 has stored, while it serves"
# Mounts that have cached nothing: programs must get the bytes from the servers.
for mnt in $mounts; do fresh "$mnt"; done
start_loads
t=$(now)
take_status
before=$repaired renewed_before=$renewed
damaged_objects=$(find "$place/mnt1/mirrored/from-mnt1" -type f -printf '%i\n' |
    failover flip "$flips" 1 "$place/oss3/disk0/objects" "$place/oss3/disk1/objects")
note "each in another block, in $damaged_objects objects of the tree that mnt1 has copied"
grep "  from-mnt1/" "$place/sums" >"$place/damaged.sums"
(cd "$place/mnt3/mirrored" && sha256sum --check --quiet --strict "$place/damaged.sums")
note "programs read that tree whole, as it was written"
pauses "$t"
stop_loads
load_sums
t=$(now)
on "$admin" "$gupfs" scrub --mds "$mds" --key "$key" --wait | sed 's/^/   /'
take_status
[ "$damaged" = 0 ] || fail "$damaged objects are damaged beyond repair"
[ $((repaired - before)) = "$flips" ] || fail "$((repaired - before)) blocks were repaired, and $flips were damaged"
wait_until_whole "$t"
note "all $flips damaged blocks are repaired from the other copy, some when programs met them, the others by the scrub ($(since "$t") s)"

say "10. Compare every name and byte through another mount, and with each object server switched off in turn"
for mnt in $mounts; do compare "$mnt"; done
count=$(wc -l <"$place/sums")
note "all object servers serve: all $count files are as they were written, read through each mount"
# A mount that stops waits for every server that has not synced what it has closed.
for mnt in $mounts; do "$gupfs" sync "$place/$mnt" >/dev/null; done
turn=0
for oss in $servers; do
    stop_server "$oss"
    turn=$((turn % 3 + 1))
    fresh "mnt$turn"
    t=$(now)
    compare "mnt$turn"
    note "without $oss, through mnt$turn, which has cached nothing: all $count files, in $(since "$t") s"
    start_oss "$oss"
    wait_until_whole "$(now)"
done

say "What the owner of the metadata sees"
status | with_names | sed "s|$place/||g; s/^/   /"

say "Stop, and check all that is stored, with each copy of the metadata"
for mnt in $mounts; do
    "$gupfs" stop "$place/$mnt" >/dev/null
    wait "${pid[$mnt]}"
    pid[$mnt]=
done
for oss in $servers; do stop_server "$oss"; done
t=$(now)
until take_copies && [ "$counting $behind $unsynced" = "3 0 0" ]; do
    [ "$(calc "\"%d\", $(now) - $t")" -lt 60 ] || { show_copies >&2; fail "the copies of the metadata are not equal"; }
    sleep 0.2
done
show_copies
last=$owner
for host in $mds_hosts; do [ "$host" = "$last" ] || stop_server "$host"; done
stop_server "$last"
t=$(now)
for host in $mds_hosts; do
    "$gupfs" check "$place/$host" --data $(for oss in $servers; do echo --ost "$place/$oss"; done) >"$place/$host.check" ||
        { cat "$place/$host.check" >&2; fail "gupfs check found problems in $host's copy of the metadata"; }
    cmp -s "$place/$first_mds.check" "$place/$host.check" || { diff "$place/$first_mds.check" "$place/$host.check" >&2; fail "the copies of the metadata differ"; }
done
sed 's/^/   /' "$place/$first_mds.check"
note "the same with all three copies of the metadata; every checksum of every copy of the data, in $(since "$t") s"

say "All is well: no program saw an error, nothing is lost, every byte has two copies and the metadata three. $(calc "\"%.0f s\", $(now) - $begun")"
