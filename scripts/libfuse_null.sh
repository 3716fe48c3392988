#!/usr/bin/env bash
# Builds the empty file systems on libfuse that `gupfs bench door --beside` measures, into DIR, and prints the flags for them:
#
#   gupfs bench door $(scripts/libfuse_null.sh DIR [PREFIX])
#
# libfuse is Debian's (package libfuse3-dev), or the one that is installed under PREFIX. From version 3.18 on it can receive
# requests over io_uring, if it was built with liburing and libnuma, and if io_uring is switched on for FUSE
# (scripts/with_io_uring.sh): then the script builds a second file system that uses it. To build another libfuse outside of this repository:
#
#   apt-get install meson ninja-build liburing-dev libnuma-dev
#   meson setup BUILD LIBFUSE --prefix=PREFIX --libdir=lib --buildtype=release -Dexamples=false -Dtests=false -Duseroot=false
#   ninja -C BUILD install
#
# Prints nothing if there is no libfuse or no C compiler.
set -eu
dir=${1:?usage: libfuse_null.sh DIR [PREFIX]}
prefix=${2:-}
source=$(cd "$(dirname "$0")/.." && pwd)/tools/bench/examples/libfuse_null.c

if [ -n "$prefix" ]; then
    PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d | paste -s -d :)
    export PKG_CONFIG_PATH
fi
for tool in pkg-config cc; do
    command -v $tool >/dev/null 2>&1 || { echo "no libfuse beside: $tool is missing" >&2; exit 0; }
done
pkg-config --exists fuse3 || { echo "no libfuse beside: as root, apt-get install libfuse3-dev" >&2; exit 0; }

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
lib=$(pkg-config --variable=libdir fuse3)
# The program must load the library that it was compiled against, wherever that is installed.
# shellcheck disable=SC2046 # the flags are several words
cc -O2 -Wall -Wextra $(pkg-config --cflags fuse3) -o "$dir/libfuse_null" "$source" $(pkg-config --libs fuse3) -lpthread \
    -Wl,-rpath,"$lib"
echo "--beside libfuse=$dir/libfuse_null"

# The version alone is not enough: without liburing and libnuma, libfuse is built without io_uring.
if [ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ]; then
    echo "libfuse not over io_uring: it is switched off" >&2
elif grep -q io_uring_q_depth "$(realpath "$lib/libfuse3.so")" && ldd "$dir/libfuse_null" | grep -q liburing; then
    printf '#!/bin/sh\nexec "%s" -o io_uring "$@"\n' "$dir/libfuse_null" > "$dir/libfuse_null_io_uring"
    chmod +x "$dir/libfuse_null_io_uring"
    echo "--beside libfuse-io_uring=$dir/libfuse_null_io_uring"
else
    echo "libfuse not over io_uring: version $(pkg-config --modversion fuse3) was built without" >&2
fi
