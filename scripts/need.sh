#!/usr/bin/env bash
# Prepares this machine for a make target: installs missing Debian packages (as root, or
# through sudo), and names each problem that it cannot solve.
#
#   scripts/need.sh build|fuzz|demo|demo-cluster|demo-failover|bench-mirrors|verify-peers|bench-seeds|browser|package|python|test-python|test
set -eu
purpose=${1:?usage: need.sh build|fuzz|demo|demo-cluster|demo-failover|bench-mirrors|verify-peers|bench-seeds|browser|package|python|test-python|test}
rust_min=1.90
problems=()

problem() { problems+=("$1"); }

# Each tool, with the Debian package that contains it.
base_tools="cc:gcc ld:binutils"
# etcd's interface is generated during the build.
build_tools="$base_tools protoc:protobuf-compiler"
fuzz_tools="$base_tools c++:g++"
demo_tools="$base_tools fusermount3:fuse3 mountpoint:util-linux sha256sum:coreutils tar:tar find:findutils"
cluster_tools="$demo_tools ip:iproute2 tc:iproute2 nsenter:util-linux"
# demo-failover runs metadata servers with copies: etcd decides which of them owns the metadata.
etcd_tools="etcd:etcd-server etcdctl:etcd-client protoc:protobuf-compiler"
test_tools="$cluster_tools $etcd_tools setfacl:acl getfattr:attr mkfs.xfs:xfsprogs mkfs.ext4:e2fsprogs losetup:mount findmnt:util-linux git:git sqlite3:sqlite3 python3:python3"
# A test also moves a PostgreSQL database between mounts if Debian's package `postgresql` is installed; otherwise it reports that it did not run.

peers_tools="$demo_tools redis-server:redis-server python3:python3"
# For the test that renders the page of `gupfs bench report`; if it cannot be installed, the test reports that it did not run.
browser_tools="chromium:chromium"

case $purpose in
    verify-peers) tools=$peers_tools ;;
    build) tools=$build_tools ;;
    bench-seeds) tools="$demo_tools protoc:protobuf-compiler" ;;
    browser) tools=$browser_tools ;;
    fuzz) tools=$fuzz_tools ;;
    demo) tools=$demo_tools ;;
    demo-cluster) tools=$cluster_tools ;;
    demo-failover) tools="$cluster_tools $etcd_tools python3:python3" ;;
    package) tools="$build_tools dpkg-shlibdeps:dpkg-dev mmdebstrap:mmdebstrap systemd-nspawn:systemd-container" ;;
    bench-mirrors) tools="$cluster_tools python3:python3 protoc:protobuf-compiler" ;;
    python) tools="$base_tools python3:python3" ;;
    test-python) tools="$demo_tools protoc:protobuf-compiler python3:python3" ;;
    test) tools=$test_tools ;;
    *) echo "need.sh: '$purpose' is not one of build, fuzz, demo, demo-cluster, demo-failover, bench-mirrors, verify-peers, bench-seeds, browser, package, python, test-python, test" >&2; exit 2 ;;
esac

# mkfs and losetup are in sbin, which is not on every user's PATH.
PATH=$PATH:/usr/sbin:/sbin
missing=()
for pair in $tools; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair#*:}")
done

# The messages that those of etcd import are in a package of their own.
if [[ $tools == *protoc:* ]] && ! [ -e /usr/include/google/protobuf/descriptor.proto ]; then missing+=(libprotobuf-dev); fi

# Debian has Python's virtual environments in a package of their own.
if [[ $purpose =~ ^(verify-peers|python|test-python)$ ]] && ! python3 -c 'import ensurepip' >/dev/null 2>&1; then missing+=(python3-venv); fi

install_packages() {
    local as=()
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as=(sudo -n); else return 1; fi
    fi
    command -v apt-get >/dev/null 2>&1 || return 1
    echo "installing: $*"
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    # The package lists of a new machine are empty or old.
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null 2>&1 || true
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    install_packages "${missing[@]}" || problem "These packages are missing and could not be installed: ${missing[*]}
     As root: apt-get install ${missing[*]}"
fi

if ! command -v cargo >/dev/null 2>&1 || ! command -v rustc >/dev/null 2>&1; then
    problem "Rust is missing: cargo and rustc $rust_min or newer are needed.
     Install them from https://rustup.rs"
else
    have=$(rustc --version | awk '{print $2}')
    if [ "$(printf '%s\n%s\n' "$rust_min" "${have%%-*}" | sort -V | head -n 1)" != "$rust_min" ]; then
        problem "Rust $have is too old: $rust_min or newer is needed.
     Run: rustup update stable"
    fi
fi

if [ "$purpose" != build ] && [ "$purpose" != fuzz ] && [ "$purpose" != browser ]; then
    if [ ! -e /dev/fuse ]; then
        [ "$(id -u)" = 0 ] && modprobe fuse 2>/dev/null || true
    fi
    if [ ! -e /dev/fuse ]; then
        problem "There is no /dev/fuse: the kernel has no FUSE, or this container was not given the device.
     Run: modprobe fuse      (in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN)"
    elif [ "$(id -u)" != 0 ] && ! command -v fusermount3 >/dev/null 2>&1; then
        problem "Neither root nor fusermount3: nobody here may mount.
     Run as root, or install the package fuse3"
    elif [ "$(id -u)" != 0 ] && { [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; }; then
        problem "/dev/fuse may not be opened by $(id -un).
     Run as root, or: chmod 666 /dev/fuse"
    fi
fi
if [ "$purpose" = test ] && [ "$(id -u)" != 0 ]; then
    problem "The tests change owners, mount file systems and attach loop devices: they need root.
     Run: sudo -E make test"
fi

if [ ${#problems[@]} -gt 0 ]; then
    echo "This machine is not ready for 'make $purpose':" >&2
    for each in "${problems[@]}"; do echo "   - $each" >&2; done
    exit 1
fi
