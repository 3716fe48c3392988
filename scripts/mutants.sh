#!/bin/bash
# Plants each bug of crates/sim/mutants into a copy of the tree, and fails unless the simulations find it. The unchanged tree
# must pass first; with arguments the script plants only the bugs of these names, and assumes that the tree passes. It keeps copy and
# build in $GUPFS_MUTANTS, so that the next run is quick.
#
# A patch names the tests that find its bug: `Found by: FILTER` for those of the simulation, or `Found by: FLAGS OF CARGO TEST FILTER` where only
# a test made for it meets the bug often enough.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
mutants=crates/sim/mutants
kept=${GUPFS_MUTANTS:-${CARGO_TARGET_DIR:-$PWD/target}/mutants}
tree=$kept/tree
export CARGO_TARGET_DIR=${GUPFS_MUTANTS_BUILD:-$kept/build}
log=$kept/log
mkdir -p "$tree" "$log"

# Unchanged files keep their modification time, so that cargo does not build them again.
git ls-files --cached --others --exclude-standard | while read -r file; do
    [ -f "$file" ] && { cmp --silent "$file" "$tree/$file" || cp --parents "$file" "$tree/"; }
done
(cd "$tree" && find . -type f -printf '%P\n') | while read -r file; do
    [ -f "$file" ] || rm "$tree/$file"
done

simulation="-p gupfs-sim --test it"

simulate() { # name, flags of cargo test, filter
    (cd "$tree" && timeout 900 ${CARGO:-cargo} test --quiet $2 ${CARGO_FLAGS:-} -- "$3") >"$log/$1" 2>&1
}

names=("$@")
[ ${#names[@]} -gt 0 ] || names=($(cd $mutants && ls -- *.patch | sed 's/\.patch$//'))

[ $# -gt 0 ] || simulate none "$simulation" "" || {
    tail -n 40 "$log/none"
    echo "the tree as it is does not pass: $log/none" >&2
    exit 1
}
lived=0
for name in "${names[@]}"; do
    patch=$mutants/$name.patch
    finder=$(sed -n 's/^Found by: //p' "$patch")
    filter=${finder##* }
    flags=${finder% *}
    [ "$flags" != "$finder" ] || flags=$simulation
    patch --directory="$tree" --strip=1 --quiet <"$patch"
    outcome=0
    (cd "$tree" && ${CARGO:-cargo} test --quiet $flags --no-run ${CARGO_FLAGS:-}) >"$log/$name" 2>&1 || outcome=1
    if [ $outcome = 1 ]; then
        verdict="does not build"
        lived=1
    elif simulate "$name" "$flags" "$filter"; then
        verdict="LIVES"
        lived=1
    else
        verdict="found: $(grep -m1 -A1 'panicked at' "$log/$name" | tail -n 1 | cut -c1-70 || true)"
    fi
    patch --directory="$tree" --strip=1 --quiet --reverse <"$patch"
    printf '%-28s %-66s %s\n' "$name" "$(head -n 1 "$patch")" "$verdict"
done
exit $lived
