#!/usr/bin/env bash
# Measures what copies of the metadata cost over links: files that four programs of one mount create and close a second, with one metadata
# server and with three, each host in a network of its own with a cable of so many Mbit/s. In turns; prints each turn's rates and their ratio.
# Leaves nothing behind.
#
#   scripts/bench-copies-links.sh PATH-OF-THE-BINARY [MBIT-PER-SECOND [TURNS [FILES]]]
#
# The binary needs the feature `etcd`, and the host etcd. TMPDIR: where the stores lie.
set -eu -o pipefail
gupfs=$(realpath "${1:?usage: bench-copies-links.sh PATH-OF-THE-BINARY [MBIT-PER-SECOND [TURNS [FILES]]]}")
project=$(realpath "$(dirname "$0")/..")
mbit=${2:-1000} turns=${3:-3} files=${4:-20000}

if [ -z "${mds_hosts:-}" ]; then
    printf '%s\n' "creates and closes a second, four processes, cables of $mbit Mbit/s"
    printf '%12s %12s %8s\n' "no copies" "two copies" ratio
    for _ in $(seq "$turns"); do
        one=$(mds_hosts="mds1" "$0" "$gupfs" "$mbit" 1 "$files")
        three=$(mds_hosts="mds1 mds2 mds3" "$0" "$gupfs" "$mbit" 1 "$files")
        awk "BEGIN { printf \"%12.0f %12.0f %8.2f\n\", $one, $three, $three / $one }"
    done
    exit
fi

# One cluster, with these metadata servers.
rate=${mbit}mbit servers=oss1 mounts=mnt1
. "$project/scripts/networks.sh"
since() { calc "\"%.1f\", $(now) - $1"; }
fail() { echo "$*" >&2; exit 1; }
failover() { python3 "$project/scripts/failover.py" "$@"; }
programs_work() { :; } # none works while the servers start
. "$project/scripts/metadata-hosts.sh"

wire
if [ "$mds_hosts" = mds1 ]; then
    start mds1 mds "$place/mds1" --listen "$(address mds1):7700" --root-squash false
else
    for host in $mds_hosts; do start_etcd "$host"; done
    wait_for_etcd
    for host in $mds_hosts; do start_metadata "$host"; done
    wait_until_copies_count "$(now)"
fi
mkdir "$place/oss1" "$place/mnt1"
on oss1 "$gupfs" ost add "$place/oss1/disk" --mds "$mds" --key "$key" >/dev/null
start_oss oss1
start_mount mnt1
python3 - "$place/mnt1" "$files" <<'PYTHON'
import os, sys, time
mount, files = sys.argv[1], int(sys.argv[2]) // 4

def create(directory, count):
    os.makedirs(directory)
    for number in range(count):
        os.close(os.open(f"{directory}/f{number}", os.O_CREAT | os.O_WRONLY))

create(f"{mount}/warm", 500)
begun = time.monotonic()
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        create(f"{mount}/d{number}", files)
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
print(round(4 * files / (time.monotonic() - begun), 1))
PYTHON
