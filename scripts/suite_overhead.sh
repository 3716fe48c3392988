#!/usr/bin/env bash
# Measures the overhead of the evaluation suite on tmpfs, where a file system costs least: two processes of mptio and metabench
# beside bare loops of the same system calls, in turns (A B A B …). Prints the medians and the ratios, which should be ≥ 0.9 and
# ≥ 0.95, then the cost of timing an operation, which should be less than 50 ns.
#
#   scripts/suite_overhead.sh RELEASE-DIR [ROUNDS]
set -eu
bin=${1:?usage: suite_overhead.sh RELEASE-DIR [ROUNDS]}
rounds=${2:-7}
dir=$(mktemp -d /dev/shm/suite_overhead.XXXXXX)
trap 'rm -rf "$dir"' EXIT
size=512 record=$((256 << 10)) files=100000

median() { sort -g | awk '{v[NR]=$1} END {print NR%2 ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }
spread() { sort -g | awk 'NR==1 {low=$1} {high=$1} END {printf "%.0f to %.0f", low, high}'; }
say() { # NAME UNIT GOAL
    local suite bare
    suite=$(median < "$dir/suite") bare=$(median < "$dir/bare")
    awk -v n="$1" -v u="$2" -v g="$3" -v s="$suite" -v b="$bare" -v ss="$(spread < "$dir/suite")" -v bs="$(spread < "$dir/bare")" \
        'BEGIN {printf "%s: %.0f %s (%s), bare loop %.0f (%s): ratio %.2f, wanted %.2f or more\n", n, s, u, ss, b, bs, s/b, g}'
    rm "$dir/suite" "$dir/bare"
}
# Runs two bare loops at once; the rate is that over the longer time.
both() { # AMOUNT COMMAND…: PART in the command is replaced by 0 or 1
    local amount=$1; shift
    "${@//PART/0}" > "$dir/0" & "${@//PART/1}" > "$dir/1" & wait
    cat "$dir/0" "$dir/1" | sort -g | awk -v a="$amount" 'END {print a/$1}'
}
figure() { # NAME: of the report in $dir/json
    awk -v n="\"$1\"" '/"figures"/ {f=1} f && $0 ~ n {hit=1} hit && /"value"/ {gsub(/[^0-9.e+-]/, "", $2); print $2; exit}' "$dir/json"
}

"$bin/mptio" --np 2 -G -f ${size}M -b 256K -t 1 -k 1 -k 2 -k 3 -k 4 -K -d "$dir" > /dev/null
for _ in $(seq "$rounds"); do
    "$bin/mptio" --np 2 -G -f ${size}M -b 256K -t 1 -k 0 -k 1 -k 2 -k 4 -K -d "$dir" | awk '/^Seq_Read/ {print $4; exit}' >> "$dir/suite"
    both $((2 * size)) "$bin/examples/bare" read "$dir/mptio_global" $record PART 2 >> "$dir/bare"
done
rm "$dir/mptio_global"
say "mptio sequential read, 2 processes" MB/s 0.9

for _ in $(seq "$rounds"); do
    mkdir "$dir/b0" "$dir/b1"
    "$bin/metabench" --np 2 -0 -C -k -c $((2 * files)) -f $((2 * files)) -w "$dir" --json "$dir/json" > /dev/null
    figure Create-B >> "$dir/suite"
    both $((2 * files)) "$bin/examples/bare" create "$dir/bPART" $files >> "$dir/bare"
    rm -r "$dir/b0" "$dir/b1"
done
say "metabench Create-B, 2 processes" files/s 0.95

for _ in $(seq "$rounds"); do "$bin/examples/bare" lap 20000000 >> "$dir/laps"; done
sort -g "$dir/laps" | awk '{v[NR]=$1; c[NR]=$2} END {m=int((NR+1)/2); printf "a latency sample: %.1f ns (%.1f to %.1f), of which the clock %.1f: wanted less than 50\n", v[m], v[1], v[NR], c[m]}'
