#!/usr/bin/env bash
# Runs all checks that must pass before a change lands: lint, all tests, and those that depend on the transport once more over
# io_uring. At its end it prints the time of each part and the tests that were not run, and it fails if the tests left something behind.
#
#   scripts/test.sh
#
# GUPFS_REQUIRE: the features that this host must have, a comma list of the names below. If a test was not run because one of these is
# missing, the run fails.
set -eu -o pipefail
cd "$(dirname "$0")/.."

# The names that tests use (crates/skips).
needs="root fuse io_uring fuse_io_uring namespaces loop_devices kernel file_system architecture browser mpi program"

# The minimum time, in seconds, of the test programs that are listed.
LISTED_FROM=5

require=${GUPFS_REQUIRE:-}
for need in ${require//,/ }; do
    case " $needs " in
        *" $need "*) ;;
        *) echo "test.sh: GUPFS_REQUIRE: '$need' is not one of: ${needs// /, }" >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
marker=
trap 'rm -rf "$work"; [ -z "$marker" ] || kill $marker' EXIT
times=$work/times
skipped=$work/skipped
: > "$times"
: > "$skipped"

# part NAME COMMAND …: runs a command, shows its output, and records its time and that of each test program. The output goes
# to a file that `tail` shows: a process that a test left behind would keep a pipe open, and this script would wait for it.
part() {
    local name=$1 log status=0 begun=$SECONDS shown
    shift
    log=$work/${name// /_}.log
    : > "$log"
    sleep infinity & marker=$!
    tail -n +1 -f --pid=$marker "$log" & shown=$!
    "$@" > "$log" 2>&1 || status=$?
    kill $marker
    wait $marker 2>/dev/null || true
    marker=
    wait $shown || true
    echo "$((SECONDS - begun)) $name" >> "$times"
    # Cargo names a program before it starts it; libtest prints its time at the end. A crate's tests follow those of its library.
    awk -v part="$name" -v from="$LISTED_FROM" '
        function stem(path) { sub(/.*\//, "", path); sub(/-[0-9a-f]+\).*$/, "", path); return path }
        / Running unittests / { crate = stem($NF); program = crate; next }
        / Running tests\// { program = (crate ? crate " " : "") stem($NF); next }
        / Doc-tests / { program = $NF " doc-tests"; next }
        /^test result: .* finished in / {
            seconds = $NF; sub(/s$/, "", seconds)
            if (seconds + 0 >= from) printf "%.0f    %s: %s\n", seconds, part, program
        }' "$log" | sort -rn >> "$times"
    return $status
}

report_times() {
    echo
    echo "How long it took, in seconds (test programs from $LISTED_FROM s on):"
    while IFS= read -r line; do printf '%7s  %s\n' "${line%% *}" "${line#* }"; done < "$times"
    printf '%7s  in all\n' "$SECONDS"
}

# The first run cannot run tests that need FUSE over io_uring; the second run does, if this host permits it.
merge_skips() {
    local first=$1 second=$2
    if [ -e "$second" ] && ! grep -q $'^fuse_io_uring\tmake\t' "$second"; then
        grep -v $'^fuse_io_uring\t' "$first" || true
    else
        cat "$first"
    fi
    [ ! -e "$second" ] || cat "$second"
}

# Prints the tests that were not run, by reason. Fails if GUPFS_REQUIRE names a missing feature.
report_skips() {
    local count need lacking=0
    count=$(cut -f 2,3 "$skipped" | sort -u | wc -l)
    echo
    if [ "$status" != 0 ]; then echo "The run failed; tests after the first failure were not run."; fi
    if [ "$count" = 0 ]; then [ "$status" != 0 ] || echo "All tests were run."; return; fi
    echo "$count tests not run:"
    cut -f 1,4 "$skipped" | sort -u | while IFS=$'\t' read -r need why; do
        echo "   $need: $why"
        awk -F '\t' -v need="$need" -v why="$why" '$1 == need && $4 == why { print "      " $2 ": " $3 }' "$skipped" | sort -u
    done
    for need in ${require//,/ }; do
        count=$(awk -F '\t' -v need="$need" '$1 == need { print $2 "\t" $3 }' "$skipped" | sort -u | wc -l)
        [ "$count" != 0 ] || continue
        echo "GUPFS_REQUIRE names $need, and $count tests were not run because this host lacks it." >&2
        lacking=1
    done
    return $lacking
}

scripts/leftovers.sh list > "$work/before"
make=${MAKE:-make}
read -ra cargo <<< "${CARGO:-cargo}"
status=0
first=$work/skipped.first
second=$work/skipped.second
: > "$first"
part lint "$make" --no-print-directory lint || status=$?
if [ "$status" = 0 ]; then
    GUPFS_SKIPPED=$first part tests "${cargo[@]}" test --workspace || status=$?
fi
if [ "$status" = 0 ]; then
    : > "$second"
    GUPFS_SKIPPED=$second part "tests over io_uring" scripts/with_io_uring.sh "$make" --no-print-directory test-io-uring || status=$?
fi
merge_skips "$first" "$second" > "$skipped"
scripts/leftovers.sh compare "$work/before" || status=1
report_times
report_skips || status=1
exit $status
