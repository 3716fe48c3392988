#!/usr/bin/env bash
# Lists what tests must not leave behind: mounts, loop devices, networks, processes of gupfs.
#
#   scripts/leftovers.sh list             prints them, sorted
#   scripts/leftovers.sh compare FILE     fails if there are more than FILE lists
set -eu
PATH=$PATH:/usr/sbin:/sbin

list() {
    {
        # The first `ip netns add` after a boot makes /run/netns itself; no test has to remove it.
        awk '$5 == "/run/netns" { next } { for (i = 1; i <= NF; i++) if ($i == "-") print "mount " $5 " (" $(i + 1) ", from " $(i + 2) ")" }' /proc/self/mountinfo
        losetup --noheadings --list --output NAME,BACK-FILE 2>/dev/null | awk 'NF { print "loop device " $1 " on " $2 }'
        ip netns list 2>/dev/null | awk '/^gt[0-9]|^gupfs-lab/ { print "network " $1 }'
        # A rebuilt executable shows as deleted; its process counts all the same.
        for exe in /proc/[0-9]*/exe; do
            path=$(readlink "$exe" 2>/dev/null) || continue
            case ${path% (deleted)} in
                */debug/gupfs|*/release/gupfs) pid=${exe#/proc/}; echo "process ${pid%/exe} ($path)" ;;
            esac
        done
    } | sort -u
}

case ${1:-} in
    list) list ;;
    compare)
        # A process that received SIGTERM may need a moment.
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            more=$(comm -13 "${2:?compare needs a file}" <(list))
            [ -z "$more" ] && exit 0
            sleep 0.5
        done
        echo "The tests left these behind:" >&2
        sed 's/^/   /' <<<"$more" >&2
        exit 1
        ;;
    *) echo "usage: leftovers.sh list | compare FILE" >&2; exit 2 ;;
esac
