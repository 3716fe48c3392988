#!/usr/bin/env bash
# Builds the Python package, or tests it against a cluster of daemons on this host. Everything but the sources lies in TARGET/python.
#
#   scripts/python.sh wheel TARGET            makes TARGET/python/wheels/gupfs-*.whl
#   scripts/python.sh test TARGET GUPFS ...   builds a wheel faster, installs it, and runs pytest; GUPFS is the binary of the servers
#   scripts/python.sh bench TARGET GUPFS ...  builds the wheel, installs it, and measures (bindings/python/bench.py)
set -eu
action=${1:?usage: python.sh wheel|test|bench TARGET [GUPFS] [ARGUMENTS]}
target=$(realpath -m "${2:?the directory for what is built}")
source=$(realpath "$(dirname "$0")/../bindings/python")
python=${PYTHON:-python3}

# A virtual environment of its own: the host's Python stays as it is.
environment() {
    local venv=$target/python/$1
    shift
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# wheel PROFILE DIRECTORY [FLAGS]
wheel() {
    local profile=$1 into=$2
    shift 2
    rm -rf "$into"
    (cd "$source" && CARGO_TARGET_DIR="$target" "$target/python/build/bin/maturin" build --quiet --locked \
        --profile "$profile" --out "$into" "$@")
}

case $action in
    wheel)
        # zig's C library lets the wheel run on every Linux since glibc 2.28 (manylinux_2_28), whatever this host has.
        environment build 'maturin[zig]>=1.9,<2'
        PATH="$target/python/build/bin:$PATH" wheel release "$target/python/wheels" --zig --compatibility manylinux_2_28
        ls "$target"/python/wheels/*.whl
        ;;
    test | bench)
        gupfs=$(realpath "${3:?the binary of the servers}")
        shift 3
        environment build 'maturin>=1.9,<2'
        profile=fast
        [ "$action" = test ] || profile=release
        wheel "$profile" "$target/python/$action-wheel"
        environment "$action" --upgrade pytest numpy fsspec pandas pyarrow
        "$target/python/$action/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps \
            "$target/python/$action-wheel"/*.whl
        export GUPFS_BIN=$gupfs
        cd "$source"
        case $action in
            test) "$target/python/test/bin/python" -m pytest -p no:cacheprovider "$@" ;;
            bench) "$target/python/bench/bin/python" bench.py "$@" ;;
        esac
        ;;
    *)
        echo "python.sh: '$action' is not one of wheel, test, bench" >&2
        exit 2
        ;;
esac
