#!/usr/bin/env bash
# Makes the Debian package of gupfs in TARGET/package, from the binary TARGET/release/gupfs. Prints the path of the package.
#
#   scripts/package.sh TARGET
set -eu -o pipefail
target=$(realpath "${1:?usage: package.sh TARGET}")
project=$(realpath "$(dirname "$0")/..")
out=$target/package
# What the package contains besides the binary; the list in crates/gupfs/Cargo.toml names these paths.
staged=$project/packaging/staged
rm -rf "$staged"
mkdir -p "$out" "$staged/systemd" "$staged/man" "$staged/etc"
trap 'rm -rf "$staged"' EXIT

gupfs=$target/release/gupfs
for unit in "$project"/systemd/*.service; do sed 's|/usr/local/bin/|/usr/bin/|' "$unit" >"$staged/systemd/${unit##*/}"; done
"$gupfs" man --dir "$staged/man" >/dev/null
gzip -9n "$staged"/man/*
for shell in bash zsh fish; do "$gupfs" completions "$shell" >"$staged/gupfs.$shell"; done
cp "$project"/docs/cluster/*.toml "$project/packaging/up.toml" "$staged/etc"
sed -i 's|docs/gupfs.example.toml|/usr/share/doc/gupfs/gupfs.example.toml|' "$staged"/etc/*.toml
ln -s ../bin/gupfs "$staged/mount.gupfs"
# Debian wants its own changelog; ours is for people.
version=$("$gupfs" version | awk 'NR == 1 { print $2 }')
printf 'gupfs (%s-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
    "The gupfs developers <developers@gupfs.invalid>" "$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(git -C "$project" log -1 --format=%ct)}")" >"$staged/changelog"
gzip -9n "$staged/changelog"

cd "$project"
CARGO_TARGET_DIR=$target cargo deb --quiet --package gupfs --no-build --output "$out"
(cd "$out" && sha256sum -- *.deb >SHA256SUMS)
ls "$out"/*.deb
