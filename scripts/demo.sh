#!/usr/bin/env bash
# The five-minute demonstration: mounts gupfs, works, kills it in the middle, restarts it, compares everything. Leaves nothing behind.
#
#   scripts/demo.sh PATH-OF-THE-BINARY
set -eu -o pipefail
export LC_ALL=C
gupfs=$(realpath "${1:?usage: demo.sh PATH-OF-THE-BINARY}")
project=$(realpath "$(dirname "$0")/..")
osts=4
files_min=5000

place=$(mktemp -d "${TMPDIR:-/tmp}/gupfs-demo.XXXXXX")
store=$place/store mnt=$place/mnt original=$place/original
mkdir "$mnt" "$original"
daemon=

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
note() { printf '   %s\n' "$*"; }
now() { date +%s.%N; }
# calc EXPRESSION: evaluates it with bytes and seconds in awk.
calc() { awk "BEGIN { printf $1 }"; }

clean_up() {
    status=$?
    trap - EXIT INT TERM
    [ -n "$copy" ] && kill "$copy" 2>/dev/null && wait "$copy" 2>/dev/null
    if [ -n "$daemon" ] && kill -0 "$daemon" 2>/dev/null; then
        "$gupfs" stop "$store" --force >/dev/null 2>&1 || kill -9 "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
    fi
    mountpoint -q "$mnt" 2>/dev/null && { umount -l "$mnt" 2>/dev/null || fusermount3 -uz "$mnt"; }
    rm -rf "$place"
    [ "$status" = 0 ] || printf '\nThe demo failed (exit code %s).\n' "$status" >&2
    exit "$status"
}
copy=
trap clean_up EXIT
trap 'exit 130' INT TERM

start() {
    "$gupfs" up "$store" --mount "$mnt" --osts $osts >"$place/up.out" 2>"$place/up.log" &
    daemon=$!
    for _ in $(seq 600); do
        grep -q ready "$place/up.out" && { note "$(head -n 1 "$place/up.out")"; return; }
        kill -0 $daemon 2>/dev/null || break
        sleep 0.05
    done
    echo "gupfs up did not get ready; it said:" >&2
    cat "$place/up.out" "$place/up.log" >&2
    exit 1
}

# The test data are the sources of the libraries of this program: every machine that built it has them.
gather() {
    local registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    awk -F'"' '/^name = /{n = $2} /^version = /{print n "-" $2}' "$project/Cargo.lock" | sort -u |
        while read -r crate; do
            for dir in "$registry"/*/"$crate"; do [ -d "$dir" ] && cp -r "$dir" "$original/"; done
        done || true
    local more
    for more in /usr/include /usr/share/doc; do
        [ "$(find "$original" -type f | wc -l)" -ge $files_min ] && break
        cp -r "$more" "$original/" 2>/dev/null || true
    done
}

say "A source tree to work with"
gather
(cd "$original" && find . -type f -print0 | xargs -0 sha256sum | sort -k 2 >"$place/sums")
files=$(wc -l <"$place/sums")
bytes=$(cd "$original" && find . -type f -printf '%s\n' | awk '{s += $1} END {print s}')
[ "$files" -ge $files_min ] || { echo "only $files files could be found; $files_min are wanted" >&2; exit 1; }
tar -C "$original" -cf "$place/tree.tar" .
note "$files files, $(calc "\"%.1f MB\", $bytes / 1e6"): the libraries gupfs is built from"

say "gupfs up: metadata server, $osts OSTs and mount in one process"
start

say "Unpack it on the mount"
mkdir "$mnt/tree"
t=$(now); tar -C "$mnt/tree" -xf "$place/tree.tar"; t=$(calc "\"%.3f\", $(now) - $t")
note "$files files in $t s: $(calc "\"%.0f files/s, %.0f MB/s\", $files / $t, $bytes / 1e6 / $t")"

say "Write and read one large file"
t=$(now); dd if=/dev/zero of="$mnt/large" bs=1M count=512 conv=fsync status=none; t=$(calc "\"%.3f\", $(now) - $t")
note "512 MiB written and synced in $t s: $(calc "\"%.0f MiB/s\", 512 / $t")"
t=$(now); dd if="$mnt/large" of=/dev/null bs=1M status=none; t=$(calc "\"%.3f\", $(now) - $t")
note "read in $t s: $(calc "\"%.0f MiB/s\", 512 / $t")"

say "Compile and run something on the mount"
crate=$(cd "$mnt/tree" && ls -d memchr-2* | head -n 1)
cat >"$mnt/count.rs" <<'RUST'
fn main() {
    let text = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    println!("{} lines", memchr::memchr_iter(b'\n', &text).count());
}
RUST
t=$(now)
(cd "$mnt" && rustc --edition 2021 -O --crate-name memchr --crate-type rlib --cap-lints allow \
    --cfg 'feature="std"' --cfg 'feature="alloc"' "tree/$crate/src/lib.rs" --out-dir . &&
    rustc --edition 2021 -O --extern memchr=libmemchr.rlib count.rs)
note "the library $crate and a program with it, in $(calc "\"%.1f s\", $(now) - $t")"
note "it counts in its own library: $("$mnt/count" "$mnt/tree/$crate/src/lib.rs")"

say "Copy the tree, and kill -9 gupfs in the middle"
mkdir "$mnt/copy"
# Copies one directory after the other and records each finished one; the first error ends the loop.
(cd "$mnt/tree" && for dir in *; do cp -r "$dir" "$mnt/copy/" && echo "$dir" >>"$place/finished" || exit; done) 2>/dev/null &
copy=$!
dirs=$(ls "$mnt/tree" | wc -l)
while [ "$(cat "$place/finished" 2>/dev/null | wc -l)" -lt $((dirs / 3)) ] && kill -0 $copy 2>/dev/null; do sleep 0.01; done
kill -9 $daemon
wait $daemon 2>/dev/null || true
wait $copy 2>/dev/null || true
daemon= copy=
note "killed after $(wc -l <"$place/finished") of $dirs directories"

say "Start again"
start

say "Compare every checksum with the original"
(cd "$mnt/tree" && sha256sum --check --quiet --strict "$place/sums")
note "the tree: $files of $files files are as they were"
awk 'NR == FNR { finished[$0]; next } { path = substr($0, 69); sub("/.*", "", path); if (path in finished) print }' \
    "$place/finished" "$place/sums" >"$place/copied.sums"
(cd "$mnt/copy" && sha256sum --check --quiet --strict "$place/copied.sums")
note "the copy that was cut off: all $(wc -l <"$place/copied.sums") files of its finished directories are whole"
cp -r "$mnt/tree/." "$mnt/copy/"
(cd "$mnt/copy" && sha256sum --check --quiet --strict "$place/sums")
note "the copy, finished now: $files of $files"

say "Where the bytes are"
"$gupfs" df "$mnt" | sed 's/^/   /'
echo
"$gupfs" layout get "$mnt/large" | sed 's/^/   /'

say "Stop, and look for inconsistencies"
"$gupfs" stop "$mnt" | sed 's/^/   /'
wait $daemon
daemon=
"$gupfs" check "$store" | sed 's/^/   /'

say "All is well."
cat <<TEXT
   To try it yourself:
      mkdir -p /tmp/gupfs-mnt
      $gupfs up /tmp/gupfs-store --mount /tmp/gupfs-mnt
   and in another terminal:
      $gupfs status
   README.md has a tour of five minutes.
TEXT
