# How the metadata lose their owner, and what programs notice of it. Scripts source this file after metadata-hosts.sh and
# verifying-programs.sh, and call the functions while programs work.
#
# No call of a program takes longer than `pause_most` seconds, but for these:
leader_most=10      # where the owner's host had etcd's leader: etcd elects another one first
move_most=1         # where an administrator moves the metadata
without_etcd_most=1 # while the owner serves, and no member of etcd

# Every loss of an owner begins with three copies that count. Sets `former` to the owner, `deposed_before`, and `t` to now.
begin_loss() {
    wait_until_copies_count "$(now)"
    former=$owner deposed_before=$(times_deposed "$owner")
    t=$(now)
    note "$former owns the metadata, number $epoch"
}
# Waits until the process of the former owner has noticed that it is deposed, and has gone on as a copy.
wait_until_deposed() {
    for _ in $(seq 150); do
        [ "$(times_deposed "$former")" = "$deposed_before" ] || return 0
        programs_work
        sleep 0.2
    done
    fail "$former does not go on as a copy after 30 s"
}
# The host of a copy that is not the owner's.
a_copy() { for host in $mds_hosts; do [ "$host" = "$former" ] || { echo "$host"; return; }; done; }

owner_is_killed() {
    begin_loss
    kill_process "$former"
    wait_for_take_over "$former" "$t"
    start_metadata "$former"
    wait_until_copies_count "$t"
    note "$former counts again as a copy, $counting_in s after it was killed"
    pauses "$t"
}

owner_is_cut_off() {
    wait_for_etcd
    begin_loss
    lead_etcd "$(a_copy)"
    t=$(now)
    pull_cable "$former"
    wait_for_take_over "$former" "$t"
    sleep 3
    plug_in "$former"
    plugged=$(now)
    wait_until_deposed
    wait_until_copies_count "$plugged"
    note "$former counts again as a copy, $counting_in s after its cable was plugged in; the process is the same"
    pauses "$t"
}

owner_loses_power_with_etcd_leader() {
    begin_loss
    lead_etcd "$former"
    t=$(now)
    go_dark "$former"
    kill_process "$former-etcd"
    wait_for_take_over "$former" "$t"
    sleep 3
    plug_in "$former"
    plugged=$(now)
    start_etcd "$former"
    start_metadata "$former"
    wait_until_copies_count "$plugged"
    note "$former counts again as a copy, $counting_in s after its power is back"
    pauses "$t" "$leader_most"
}

owner_is_frozen() {
    wait_for_etcd
    begin_loss
    on "$former" python3 "$project/scripts/failover.py" freeze "${pid[$former]}" 7700 10 "$mds" >"$place/frozen" &
    freezing=$!
    wait_for_take_over "$former" "$t"
    wait "$freezing"
    read -r connections sent begun_meanwhile answered <"$place/frozen"
    [ "$connections" -ge 7 ] || fail "the frozen owner had $connections connections to mounts and object servers, and not at least 7"
    [ "$sent" = 0 ] || fail "the frozen owner sent $sent bytes over its connections to mounts and object servers when it woke"
    [ "$answered" = 0 ] || fail "the frozen owner answered over $answered connections that began meanwhile"
    note "$former wakes, and sends no byte to the mounts and object servers over its $connections connections, nor an answer over $begun_meanwhile that began meanwhile"
    wait_until_deposed
    wait_until_copies_count "$(calc "\"%.3f\", $t + 10")"
    note "$former counts again as a copy, $counting_in s after it woke; the process is the same"
    pauses "$t"
}

metadata_are_moved() {
    begin_loss
    local other
    other=$(a_copy)
    on "$admin" "$gupfs" mds move "$(address "$other")" --mds "$mds" --key "$key" >/dev/null
    wait_for_take_over "$former" "$t"
    [ "$owner" = "$other" ] || fail "$owner owns the metadata, and not $other"
    wait_until_copies_count "$t"
    pauses "$t" "$move_most"
}

etcd_is_away() {
    begin_loss
    for host in $mds_hosts; do kill_process "$host-etcd"; done
    sleep 8
    take_copies && [ "$owner" = "$former" ] || fail "$former does not own the metadata any more"
    [ "$etcd_answers" = 0 ] || fail "the owner does not report that etcd is away"
    status | grep "etcd does not answer" | with_names | sed 's/ *\(([^()]*\)*$//; s/^/   /'
    for host in $mds_hosts; do start_etcd "$host"; done
    wait_for_etcd
    until take_copies && [ "$etcd_answers" = 1 ]; do
        programs_work
        [ "$(calc "\"%d\", $(now) - $t")" -lt 60 ] || fail "the owner reports that etcd is away, and it is not"
        sleep 0.2
    done
    [ "$owner" = "$former" ] || fail "$former does not own the metadata any more"
    wait_until_copies_count "$t"
    note "$owner has owned the metadata all the time"
    pauses "$t" "$without_etcd_most"
}
