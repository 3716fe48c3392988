#!/usr/bin/env bash
# Compares our empty file system with those of fuser and libfuse (`gupfs bench door`); prints the results and writes them to
# bench/results/DATE-fuse.txt.
#
#   scripts/bench_fuse.sh BUILD-DIRECTORY [PREFIX-OF-LIBFUSE [FLAGS OF `gupfs bench door` …]]
set -eu
release=$1 prefix=${2:-}
shift $(($# < 2 ? $# : 2))
cd "$(dirname "$0")/.."

beside=(--beside "fuser=$release/examples/fuser_null")
mapfile -t libfuse < <(scripts/libfuse_null.sh "$release/examples" "$prefix")
for flags in "${libfuse[@]}"; do beside+=(--beside "${flags#--beside }"); done
libfuse="libfuse $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion fuse3 2>/dev/null || echo none)"

# A failed measurement does not change the last result.
whole=$(mktemp)
trap 'rm -f "$whole"' EXIT
result=bench/results/$(date +%F)-fuse.txt
cpu=$(grep -m 1 '^model name' /proc/cpuinfo | cut -d : -f 2 | xargs)
uring=$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null || echo none)
{
    echo "# gupfs bench door $* ${beside[*]}"
    echo "# $(git rev-parse --short HEAD), $(date +%F), $(nproc) × $cpu, Linux $(uname -r), enable_uring=$uring, $libfuse"
    "$release/gupfs" bench door "$@" "${beside[@]}"
} | tee "$whole"
cp "$whole" "$result"
echo "written to $result"
