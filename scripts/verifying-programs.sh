# Programs on all mounts that verify what they read, and the comparison of all files at the end. Scripts source this file after networks.sh;
# they keep $place/sums, the checksums of all files below `mirrored`, and $place/names, all names there but for those of the programs.
#
# failover.py has the programs. They write the time of each slow call into $place/MOUNT.calls.
failover() { python3 "$project/scripts/failover.py" "$@"; }

declare -A loads=()
call_logs() { for mnt in $mounts; do echo "$place/$mnt.calls"; done; }

start_loads() {
    local mnt other others
    for mnt in $mounts; do
        others=
        for other in $mounts; do [ "$other" = "$mnt" ] || others="$others $place/$mnt/mirrored/load-$other"; done
        # Not through `failover`: the recorded process id must be that of the program itself.
        python3 "$project/scripts/failover.py" load "$place/$mnt/mirrored/load-$mnt" "${others# }" "$place/$mnt.tree" "$place/$mnt.calls" \
            >"$place/$mnt.load" 2>"$place/$mnt.errors" &
        loads[$mnt]=$!
    done
    for mnt in $mounts; do
        for _ in $(seq 300); do
            grep -q working "$place/$mnt.load" && break
            sleep 0.1
        done
    done
    programs_work
}
programs_work() {
    local mnt
    for mnt in "${!loads[@]}"; do
        kill -0 "${loads[$mnt]}" 2>/dev/null || { cat "$place/$mnt.errors" >&2; fail "a program on $mnt saw an error"; }
    done
}
stop_loads() {
    local mnt
    for mnt in "${!loads[@]}"; do kill "${loads[$mnt]}"; done
    for mnt in "${!loads[@]}"; do wait "${loads[$mnt]}" || { cat "$place/$mnt.errors" >&2; fail "a program on $mnt saw an error"; }; done
    loads=()
}

# What the programs have left behind is compared from then on, too.
load_sums() {
    local mnt
    grep -v "  load-" "$place/sums" >"$place/tree.sums"
    for mnt in $mounts; do sed "s|  .*/mirrored/|  |" "$place/$mnt/mirrored/load-$mnt.sums"; done | cat "$place/tree.sums" - >"$place/sums"
}

# pauses FROM [MOST]: what the programs on all mounts have noticed since then; no call may have taken longer than MOST seconds.
pauses() {
    local most calls kinds limit=${2:-$pause_most}
    programs_work
    # shellcheck disable=SC2046 # the paths have no blanks
    failover works_since "$(now)" $(call_logs) || fail "programs wait"
    programs_work
    read -r most calls kinds < <(failover longest "$1" "$(now)" $(call_logs))
    note "programs made $calls calls meanwhile, without an error; the longest took $most s (${kinds:-none took 0.05 s}), at most $limit s are allowed"
    [ "$(calc "$most <= $limit")" = 1 ] || fail "a call took longer than $limit s"
}

# copied TREE: the names below the original tree are those of a copy `TREE`, too.
copied() { (cd "$original" && find . -mindepth 1 -printf "%y $1/%P\n"; echo "d $1") >>"$place/names"; }

# compare MOUNT: all names, every byte of the tree that each mount copied, and of the files of each program, through this mount.
compare() {
    (cd "$place/$1/mirrored" && sha256sum --check --quiet --strict "$place/sums")
    (cd "$place/$1/mirrored" && cat "$place/names" load-*.names | sort | diff - <(find . -mindepth 1 -printf '%y %P\n' | sort))
}
