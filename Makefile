# Targets for developers and operators. Everything else is `cargo` as usual.
#
#   make demo        the five-minute demonstration: builds and mounts gupfs, works, kills it, restarts it, compares
#   make demo-cluster  runs a metadata server, four object servers and three mounts in networks of their own; kills each once
#   make demo-failover  loses a host, a disk and bits of a cluster with mirrored files, and each owner of its metadata, under load; then each
#                    object server in turn
#   make test        runs all tests that must pass before a change lands; prints the tests that this host could not run
#   make test-long   runs simulations, random calls, kills and power cuts, several times as many as `make test`
#   make xfstests XFSTESTS=DIR   runs the quick group of xfstests, built in DIR, on a mount (XFSTESTS_ARGS: other tests);
#                    part of test-long if XFSTESTS is given
#   make fuzz        feeds random bytes to all readers of messages of the kernel and of other processes, and of disks, 60 s each
#   make mutants     plants known bugs; the simulations must find each
#   make verify-peers  runs `gupfs verify` on two mounts of JuiceFS; they must disagree under POSIX
#   make bench       measures speeds as ratios to the local file system; writes bench/results/
#   make bench-fuse  runs the last part of `bench`: FUSE requests a second to an empty file system, beside fuser and libfuse
#   make bench-cluster  measures daemons over TCP on this host: streams, creating, unpacking, beside the local file system
#   make bench-links measures which share of links of 400 Mbit/s a cluster uses, with 1, 2 and 4 object servers
#   make bench-mirrors  measures files with two copies of each byte beside files without redundancy (MIRRORS: parts, for example "link away")
#   make bench-copies  measures what copies of the metadata cost and how long programs wait for a take-over (COPIES: parts, for example
#                    "create pause"; 1,000 sessions and 1,000,000 files, and links of 1 Gbit/s, are part of it without COPIES)
#   make bench-seeds runs the plan `seeds` on a local directory, gupfs and GlusterFS; writes a page with the results
#   make bench-suite measures the overhead of the evaluation suite: its programs beside bare loops of the same calls
#   make python      builds the Python package, $(TARGET)/python/wheels (manylinux_2_28; bindings/python)
#   make test-python tests it against a cluster of daemons on this host, with fsspec's own tests, pandas and pyarrow (PYTEST: its flags)
#   make bench-python  measures it beside a mount: a file in order, random places, many ranges, a listing
#   make build       builds the optimised binary, $(TARGET)/release/gupfs
#   make package     makes the Debian package in $(TARGET)/package
#   make test-package  tries that package in a fresh Debian 12 with systemd: install, restart, upgrade under load, purge
#   make install     installs binary, man pages, completions, systemd units into $(DESTDIR)$(PREFIX)

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
CARGO ?= cargo
PREFIX ?= /usr/local
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
# Never run two targets at once: one may need resources that another's tests use (mount points, the CPU).
.NOTPARALLEL:

XFSTESTS_ARGS ?= -g quick

.PHONY: xfstests help demo demo-cluster demo-failover test test-io-uring test-long fuzz mutants bench bench-fuse bench-door bench-cluster bench-links bench-mirrors bench-copies bench-seeds bench-suite build lint python test-python bench-python package test-package install verify-peers

help:
	@sed -n '3,30s/^#   //p' Makefile

demo:
	@scripts/need.sh demo
	@$(CARGO) build --release --quiet -p gupfs --no-default-features
	@scripts/demo.sh "$(TARGET)/release/gupfs"

demo-cluster:
	@scripts/need.sh demo-cluster
	@$(CARGO) build --release --quiet -p gupfs --no-default-features
	@scripts/demo-cluster.sh "$(TARGET)/release/gupfs"

demo-failover:
	@scripts/need.sh demo-failover
	@$(CARGO) build --release --quiet -p gupfs --no-default-features --features etcd
	@scripts/demo-failover.sh "$(TARGET)/release/gupfs"

build:
	@scripts/need.sh build
	$(CARGO) build --release -p gupfs

package:
	@scripts/need.sh package
	$(CARGO) build --release -p gupfs
	@[ -x "$(TARGET)/tools/bin/cargo-deb" ] || $(CARGO) install --quiet --locked --root "$(TARGET)/tools" cargo-deb@3.8.0
	@PATH="$(TARGET)/tools/bin:$$PATH" scripts/package.sh "$(TARGET)"

test-package: package
	@scripts/test-package.sh "$(TARGET)"/package/gupfs_*.deb "$(TARGET)/debian12"

python:
	@scripts/need.sh python
	@scripts/python.sh wheel "$(TARGET)"

# PYTEST: for example PYTEST="-x -k fork". GUPFS_LONG=1: 10,000 turns beside a mount.
test-python:
	@scripts/need.sh test-python
	$(CARGO) build -p gupfs
	@scripts/python.sh test "$(TARGET)" "$(TARGET)/debug/gupfs" $(PYTEST)

# BENCH_PYTHON: flags of bindings/python/bench.py, for example BENCH_PYTHON="--only listing --turns 9".
bench-python:
	@scripts/need.sh test-python
	$(CARGO) build --release -p gupfs
	@scripts/python.sh bench "$(TARGET)" "$(TARGET)/release/gupfs" $(BENCH_PYTHON)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

test:
	@scripts/need.sh test
	@CARGO="$(CARGO)" MAKE="$(MAKE)" scripts/test.sh

# Runs the tests that depend on the FUSE transport once more, over io_uring. (The whole workspace, so that cargo builds nothing
# again with other features.)
test-io-uring:
	$(CARGO) test --workspace --test over_io_uring --test idle_memory
	GUPFS_TEST_TRANSPORT=io-uring $(CARGO) test --workspace --test conform --test lifecycle --test model --test power_cut \
		--test descriptors --test memory

test-long:
	GUPFS_TIMES=10 $(CARGO) test -p gupfs-sim --test it
	GUPFS_RANDOM=1 GUPFS_CASES=3000 $(CARGO) test --workspace --test model
	GUPFS_CUTS=200 GUPFS_KILLS=100 $(CARGO) test --workspace --test power_cut
	GUPFS_CLUSTER_KILLS=200 $(CARGO) test --workspace --test cluster servers_are_killed
	GUPFS_COPIES_KILLS=200 $(CARGO) test --workspace --test cluster owners_are_killed -- --nocapture
	GUPFS_COPIES_CUTS=20 $(CARGO) test --workspace --test cluster power_cuts_of_any_servers -- --nocapture
	GUPFS_CLUSTER_CUTS=60 $(CARGO) test --workspace --test cluster power_cuts_of
	GUPFS_CLUSTER_AWAY=30,300 $(CARGO) test --workspace --test cluster after_a_long_cut
	GUPFS_CLUSTER_JUMPS=30 $(CARGO) test --workspace --test cluster wall_clocks
	PLANTED_SECONDS=300 $(CARGO) test --workspace --test planted -- --nocapture --test-threads=1
	GUPFS_FLIPS=400 $(CARGO) test --workspace --test salvage flipped
	VERIFY_SECONDS=600 $(CARGO) test --workspace --test local agrees_with_itself
	GUPFS_CLUSTER_FILES=1000000 $(CARGO) test --workspace --test cluster a_thousand_sessions -- --nocapture
	GUPFS_CLUSTER_VERIFY=600 $(CARGO) test --workspace --test cluster mounts_agree_while -- --nocapture --test-threads=1
	GUPFS_CLUSTER_VERIFY=600 $(CARGO) test --workspace --test cluster of_long_rounds -- --nocapture
	GUPFS_CLUSTER_VERIFY_LOST=6 $(CARGO) test --workspace --test cluster the_others_agree -- --nocapture
	GUPFS_CLUSTER_STORM=60 $(CARGO) test --workspace --test cluster two_mounts_change_the_names -- --nocapture
	GUPFS_CLUSTER_TURNS=25000 $(CARGO) test --workspace --test cluster count_in_one_mapped_page
	GUPFS_CLUSTER_GROWS=120 $(CARGO) test --workspace --test cluster programs_read_a_prefix -- --nocapture
	GUPFS_CLUSTER_MOUNT_KILLS=20 $(CARGO) test --workspace --test cluster mount_kills -- --nocapture
	GUPFS_CLUSTER_NAMES=1000000 $(CARGO) test --workspace --test cluster many_names -- --nocapture
	GUPFS_CLUSTER_MOVES=20 $(CARGO) test --workspace --test cluster moves_between_mounts
	@if scripts/etcd-current.sh "$(TARGET)/etcd-current"; then \
		GUPFS_ETCD="$(abspath $(TARGET))/etcd-current/etcd" GUPFS_ETCDCTL="$(abspath $(TARGET))/etcd-current/etcdctl" \
			$(CARGO) test -p gupfs-platform --test arbiter; \
		elif [ $$? = 3 ]; then echo "a current etcd was not tried: install Go, which builds it"; \
		else exit 1; fi
	@if [ -n "$(XFSTESTS)" ]; then $(MAKE) --no-print-directory xfstests; \
		else echo "xfstests were not tried: make test-long XFSTESTS=DIR, a folder with a built suite"; fi

# XFSTESTS: a folder with a built xfstests; only its results change.
xfstests:
	@[ -n "$(XFSTESTS)" ] || { echo "make xfstests XFSTESTS=DIR: a folder with a built xfstests" >&2; exit 2; }
	$(CARGO) build --release -p gupfs
	scripts/xfstests.sh "$(TARGET)/release/gupfs" "$(XFSTESTS)" $(XFSTESTS_ARGS)

# FUZZ: one of crates/fuse/fuzz/fuzz_targets or fuzz/fuzz_targets, or "all"; then seconds and flags of libFuzzer, for example
# FUZZ="ring 600". Or "wire" for connections to a server.
fuzz:
	@scripts/need.sh fuzz
	scripts/fuzz.sh $(FUZZ)

mutants:
	@scripts/mutants.sh

# PEERS: seconds, and further flags of `gupfs verify`, for example PEERS="60 --ops attributes".
verify-peers:
	@scripts/need.sh verify-peers
	$(CARGO) build --release -p gupfs-verify
	scripts/verify-peers.sh "$(TARGET)/release/gupfs-verify" $(PEERS)

# BENCH: further flags of gupfs-bench, for example BENCH="--only create --runs 3".
bench:
	@scripts/need.sh test
	$(CARGO) build --release -p gupfs -p gupfs-bench
	$(CARGO) build --release -p gupfs-fuse --example nullfs
	scripts/with_io_uring.sh --anyway "$(TARGET)/release/gupfs-bench" --gupfs "$(TARGET)/release/gupfs" \
		--nullfs "$(TARGET)/release/examples/nullfs" --out bench/results $(BENCH)
	@$(MAKE) --no-print-directory bench-fuse

bench-cluster:
	@scripts/need.sh demo
	$(CARGO) build --release -p gupfs --no-default-features --features tools
	@scripts/bench-cluster.sh "$(TARGET)/release/gupfs"

bench-links:
	@scripts/need.sh demo-cluster
	$(CARGO) build --release -p gupfs --no-default-features --features tools
	@scripts/bench-links.sh "$(TARGET)/release/gupfs"

# MIRRORS: parts of the measurement (scripts/bench-mirrors.sh lists them), for example "latency away"; TURNS, SIZE: as the script describes.
bench-mirrors:
	@scripts/need.sh bench-mirrors
	$(CARGO) build --release -p gupfs
	@scripts/bench-mirrors.sh "$(TARGET)/release/gupfs" $(MIRRORS)

# COPIES: parts of the measurement (scripts/bench-copies.py lists them), for example "create pause"; TURNS, CALLS, FILES: as the script describes.
bench-copies:
	@scripts/need.sh demo-failover
	$(CARGO) build --release -p gupfs
	@scripts/bench-copies.py "$(TARGET)/release/gupfs" $(COPIES)
	@[ -n "$(COPIES)" ] || scripts/bench-copies-links.sh "$(TARGET)/release/gupfs"
	@[ -n "$(COPIES)" ] || GUPFS_COPIES_SESSIONS=1000 GUPFS_COPIES_FILES=1000000 $(CARGO) test --release -p gupfs --test cluster copies::many_sessions -- --nocapture

# Measures the cost of a FUSE request by itself, beside the crate fuser and, if it is installed, libfuse. BENCH_FUSE: further flags of
# `gupfs bench door`, for example BENCH_FUSE="--only lookup". LIBFUSE: the prefix of another libfuse (scripts/libfuse_null.sh describes how
# to build one).
bench-fuse:
	@scripts/need.sh test
	$(CARGO) build --release -p gupfs
	$(CARGO) build --release -p gupfs-bench --example fuser_null
	scripts/with_io_uring.sh --anyway scripts/bench_fuse.sh "$(TARGET)/release" "$(LIBFUSE)" $(BENCH_FUSE) $(DOOR)

# The former name of bench-fuse and, with DOOR, of BENCH_FUSE; both work until the next version.
bench-door: bench-fuse

# SEEDS: flags of `gupfs bench run`, for example SEEDS="--only metadata --repeat 4". BENCH_DIR: the directory for the file systems.
bench-seeds:
	@scripts/need.sh bench-seeds
	$(CARGO) build --release -p gupfs
	@scripts/bench-seeds.sh "$(TARGET)/release/gupfs" $(SEEDS)

bench-suite:
	@scripts/need.sh build
	$(CARGO) build --release -p gupfs-suite --bins --examples
	scripts/suite_overhead.sh "$(TARGET)/release"

# SUITE: cargo flags for the evaluation suite, for example SUITE="--features mpi".
install: build
	$(CARGO) build --release -p gupfs-suite $(SUITE)
	install -D -m 755 "$(TARGET)/release/gupfs" "$(DESTDIR)$(PREFIX)/bin/gupfs"
	install -m 755 -t "$(DESTDIR)$(PREFIX)/bin" "$(TARGET)/release/mptio" "$(TARGET)/release/mptsum" "$(TARGET)/release/metabench" \
		"$(TARGET)/release/pioraw" "$(TARGET)/release/mdmark"
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system" "$(DESTDIR)$(PREFIX)/sbin"
	for unit in systemd/*.service; do sed 's|/usr/local/bin/|$(PREFIX)/bin/|' $$unit > "$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}"; done
	ln -sf ../bin/gupfs "$(DESTDIR)$(PREFIX)/sbin/mount.gupfs"
	"$(TARGET)/release/gupfs" man --dir "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions"
	"$(TARGET)/release/gupfs" completions bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/gupfs"
