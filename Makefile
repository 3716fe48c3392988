# What a person types. Everything else is `cargo` as usual.
#
#   make demo        build, mount, work, kill, restart, compare: the five-minute proof
#   make demo-cluster  a metadata server, four object servers, three mounts in networks of their own; each is killed once
#   make test        everything that must hold before a change lands
#   make test-long   simulations, random calls, kills and power cuts, several times as many
#   make xfstests XFSTESTS=DIR   the quick group of xfstests, built in DIR, on a mount (XFSTESTS_ARGS: other tests); part of
#                    test-long if XFSTESTS is given
#   make fuzz        bytes of chance into all that reads the kernel's messages, other processes' and disks, 60 s each
#   make mutants     plants known bugs, and expects the simulations to find each
#   make verify-peers  what `gupfs verify` says of JuiceFS, on two mounts: it must disagree under POSIX
#   make bench       speeds, as ratios to the local file system, into bench/results/
#   make bench-fuse  its last part alone: FUSE requests a second to an empty file system, beside fuser and libfuse
#   make bench-cluster  daemons over TCP on this host: streams, creating, unpacking, beside the local file system
#   make bench-links a cluster over cables of 400 Mbit/s: how much of them is used, with 1, 2 and 4 object servers
#   make bench-seeds the seeds' workloads on a local directory, gupfs and GlusterFS, and the page that shows it
#   make bench-suite is the evaluation suite itself in the way? its programs beside bare loops of the same calls
#   make build       the binary, optimised, in $(TARGET)/release/gupfs
#   make install     into $(DESTDIR)$(PREFIX): binary, man pages, completions, systemd units

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
CARGO ?= cargo
PREFIX ?= /usr/local
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
# One target may need what another's tests hold (mount points, the CPU): never two at once.
.NOTPARALLEL:

XFSTESTS_ARGS ?= -g quick

.PHONY: xfstests help demo demo-cluster test test-io-uring test-long fuzz mutants bench bench-fuse bench-door bench-cluster bench-links bench-seeds bench-suite build lint install verify-peers

help:
	@sed -n '3,21s/^#   //p' Makefile

demo:
	@scripts/need.sh demo
	@$(CARGO) build --release --quiet -p gupfs
	@scripts/demo.sh "$(TARGET)/release/gupfs"

demo-cluster:
	@scripts/need.sh demo-cluster
	@$(CARGO) build --release --quiet -p gupfs
	@scripts/demo-cluster.sh "$(TARGET)/release/gupfs"

build:
	@scripts/need.sh build
	$(CARGO) build --release -p gupfs

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

test:
	@scripts/need.sh test
	@CARGO="$(CARGO)" MAKE="$(MAKE)" scripts/test.sh

# The same once more for whatever depends on the way in which requests come. (The whole workspace, so that nothing is built
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
	GUPFS_CLUSTER_CUTS=60 $(CARGO) test --workspace --test cluster power_cuts_of
	GUPFS_CLUSTER_AWAY=30,300 $(CARGO) test --workspace --test cluster after_a_long_cut
	GUPFS_CLUSTER_JUMPS=30 $(CARGO) test --workspace --test cluster wall_clocks
	PLANTED_SECONDS=300 $(CARGO) test --workspace --test planted -- --nocapture --test-threads=1
	GUPFS_FLIPS=400 $(CARGO) test --workspace --test salvage flipped
	VERIFY_SECONDS=600 $(CARGO) test --workspace --test local agrees_with_itself
	GUPFS_CLUSTER_FILES=1000000 $(CARGO) test --workspace --test cluster a_thousand_sessions -- --nocapture
	@if [ -n "$(XFSTESTS)" ]; then $(MAKE) --no-print-directory xfstests; \
		else echo "xfstests were not tried: make test-long XFSTESTS=DIR, a folder with a built suite"; fi

# XFSTESTS: a folder with a built xfstests, which stays as it is but for its results.
xfstests:
	@[ -n "$(XFSTESTS)" ] || { echo "make xfstests XFSTESTS=DIR: a folder with a built xfstests" >&2; exit 2; }
	$(CARGO) build --release -p gupfs
	scripts/xfstests.sh "$(TARGET)/release/gupfs" "$(XFSTESTS)" $(XFSTESTS_ARGS)

# FUZZ: one of crates/fuse/fuzz/fuzz_targets or fuzz/fuzz_targets, or all, seconds, flags of libFuzzer, for example FUZZ="ring 600"; or "wire", for
# connections to a server.
fuzz:
	@scripts/need.sh fuzz
	scripts/fuzz.sh $(FUZZ)

mutants:
	@scripts/mutants.sh

# PEERS: seconds, and more flags for `gupfs verify`, for example PEERS="60 --ops attributes".
verify-peers:
	@scripts/need.sh verify-peers
	$(CARGO) build --release -p gupfs-verify
	scripts/verify-peers.sh "$(TARGET)/release/gupfs-verify" $(PEERS)

# BENCH: more flags for it, for example BENCH="--only create --runs 3".
bench:
	@scripts/need.sh test
	$(CARGO) build --release -p gupfs -p gupfs-bench
	$(CARGO) build --release -p gupfs-fuse --example nullfs
	scripts/with_io_uring.sh --anyway "$(TARGET)/release/gupfs-bench" --gupfs "$(TARGET)/release/gupfs" \
		--nullfs "$(TARGET)/release/examples/nullfs" --out bench/results $(BENCH)
	@$(MAKE) --no-print-directory bench-fuse

bench-cluster:
	@scripts/need.sh demo
	$(CARGO) build --release -p gupfs
	@scripts/bench-cluster.sh "$(TARGET)/release/gupfs"

bench-links:
	@scripts/need.sh demo-cluster
	$(CARGO) build --release -p gupfs
	@scripts/bench-links.sh "$(TARGET)/release/gupfs"

# What a request costs by itself, beside the crate fuser and, where it is found, libfuse. BENCH_FUSE: more flags for it, for
# example BENCH_FUSE="--only lookup". LIBFUSE: where a libfuse of one's own is installed (scripts/libfuse_null.sh says how).
bench-fuse:
	@scripts/need.sh test
	$(CARGO) build --release -p gupfs
	$(CARGO) build --release -p gupfs-bench --example fuser_null
	scripts/with_io_uring.sh --anyway scripts/bench_fuse.sh "$(TARGET)/release" "$(LIBFUSE)" $(BENCH_FUSE) $(DOOR)

# The former name, and DOOR for BENCH_FUSE: until the next version.
bench-door: bench-fuse

# SEEDS: flags for `gupfs bench run`, for example SEEDS="--only metadata --repeat 4". BENCH_DIR: where all of it lies.
bench-seeds:
	@scripts/need.sh bench-seeds
	$(CARGO) build --release -p gupfs
	@scripts/bench-seeds.sh "$(TARGET)/release/gupfs" $(SEEDS)

bench-suite:
	@scripts/need.sh build
	$(CARGO) build --release -p gupfs-suite --bins --examples
	scripts/suite_overhead.sh "$(TARGET)/release"

# SUITE: flags for building the evaluation suite, for example SUITE="--features mpi".
install: build
	$(CARGO) build --release -p gupfs-suite $(SUITE)
	install -D -m 755 "$(TARGET)/release/gupfs" "$(DESTDIR)$(PREFIX)/bin/gupfs"
	install -m 755 -t "$(DESTDIR)$(PREFIX)/bin" "$(TARGET)/release/mptio" "$(TARGET)/release/mptsum" "$(TARGET)/release/metabench" \
		"$(TARGET)/release/pioraw" "$(TARGET)/release/mdmark"
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -D -m 644 -t "$(DESTDIR)$(PREFIX)/lib/systemd/system" systemd/*.service
	"$(TARGET)/release/gupfs" man --dir "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions"
	"$(TARGET)/release/gupfs" completions bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/gupfs"
