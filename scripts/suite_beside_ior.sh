#!/usr/bin/env bash
# Compares the evaluation suite with IOR and mdtest (github.com/hpc/ior, built outside of this repository): the same workloads with two
# processes on tmpfs, in turns; prints medians and ratios, which should be within 10 % of 1. mdtest does more for each file than the
# call itself, and its paths are longer; bare loops without and with that work are measured beside both programs.
#
#   scripts/suite_beside_ior.sh RELEASE-DIR IOR-SRC-DIR [ROUNDS]
set -eu
bin=${1:?usage: suite_beside_ior.sh RELEASE-DIR IOR-SRC-DIR [ROUNDS]}
ior=${2:?usage: suite_beside_ior.sh RELEASE-DIR IOR-SRC-DIR [ROUNDS]}
rounds=${3:-5}
dir=$(mktemp -d /dev/shm/suite_beside_ior.XXXXXX)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/on" "$dir/said"
files=50000

median() { sort -g "$1" | awk '{v[NR]=$1} END {print NR%2 ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }
spread() { sort -g "$1" | awk 'NR==1 {low=$1} {high=$1} END {printf "%.0f to %.0f", low, high}'; }
say() { # WHAT UNIT OURS THEIRS
    local said=$dir/said
    awk -v w="$1" -v u="$2" -v a="$(median "$said/$3")" -v b="$(median "$said/$4")" -v as="$(spread "$said/$3")" -v bs="$(spread "$said/$4")" \
        -v x="$3" -v y="$4" 'BEGIN {printf "%s, %s: %s %.0f (%s), %s %.0f (%s): ratio %.2f\n", w, u, x, a, as, y, b, bs, a/b}'
}
mpi() { mpirun --allow-run-as-root --oversubscribe -np 2 "$@"; }
# Runs two bare loops at once; the rate is that over the longer time.
both() { # COMMAND…: PART in the command is replaced by 0 or 1
    "${@//PART/0}" > "$dir/0" & "${@//PART/1}" > "$dir/1" & wait
    cat "$dir/0" "$dir/1" | sort -g | awk -v a=$((2 * files)) 'END {print a/$1}'
}
figure() { # NAME: of the report in $dir/json
    awk -v n="\"$1\"" '/"figures"/ {f=1} f && $0 ~ n {hit=1} hit && /"value"/ {gsub(/[^0-9.e+-]/, "", $2); print $2; exit}' "$dir/json"
}

for _ in $(seq "$rounds"); do
    "$bin/mptio" --np 2 -G -f 256M -b 256K -t 1 -k 1 -k 2 -k 4 -d "$dir/on" --json "$dir/json" > /dev/null
    figure Seq_Write >> "$dir/said/mptio-write"
    figure Seq_Read >> "$dir/said/mptio-read"
    mpi "$ior/ior" -a POSIX -w -r -t 256k -b 256m -o "$dir/on/ior" > "$dir/out"
    awk '/^write / {print $2; exit}' "$dir/out" >> "$dir/said/ior-write"
    awk '/^read / {print $2; exit}' "$dir/out" >> "$dir/said/ior-read"

    "$bin/metabench" --np 2 -0 -C -S -k -c $((2 * files)) -w "$dir/on" --json "$dir/json" > /dev/null
    figure Create-B >> "$dir/said/metabench-create"
    figure Stat-A >> "$dir/said/metabench-stat"
    mpi "$ior/mdtest" -F -C -T -r -u -n $files -d "$dir/on" > "$dir/out"
    awk '/File creation/ {print $3}' "$dir/out" >> "$dir/said/mdtest-create"
    awk '/File stat/ {print $3}' "$dir/out" >> "$dir/said/mdtest-stat"
    # One process makes metabench's files, in the order of their stats; both processes make mdtest's at once.
    deep=$dir/on/test-dir.0-0/mdtest_tree
    mkdir -p "$dir/on/p0" "$dir/on/p1" "$deep.0.0" "$deep.1.0"
    both "$bin/examples/bare" create "$dir/on/pPART" fPART. $files >> "$dir/said/bare-create"
    rm -r "$dir/on/p0" "$dir/on/p1"; mkdir "$dir/on/p0" "$dir/on/p1"
    for part in 0 1; do "$bin/examples/bare" create "$dir/on/p$part" f$part. $files > /dev/null; done
    both "$bin/examples/bare" stat "$dir/on/pPART" fPART. $files >> "$dir/said/bare-stat"
    both "$bin/examples/bare" create / "$deep.PART.0/file.mdtest.PART." $files >> "$dir/said/bare-long"
    both "$bin/examples/bare" mdtest "$deep.PART.0" mdtest.PART. $files >> "$dir/said/bare-mdtest"
    rm -r "$dir/on"; mkdir "$dir/on"
done
say "write, 256 KB records" MB/s mptio-write ior-write
say "read" MB/s mptio-read ior-read
say "create" files/s metabench-create mdtest-create
say "stat" files/s metabench-stat mdtest-stat
say "create, by a name in the directory" files/s metabench-create bare-create
say "create, by mdtest's path" files/s mdtest-create bare-long
say "stat, by a name in the directory" files/s metabench-stat bare-stat
say "stat, with what mdtest does for each" files/s mdtest-stat bare-mdtest
