# Hosts of the metadata: each has a member of etcd and a metadata server with a copy of the metadata. Scripts source this file after
# networks.sh, with the names of the hosts in `mds_hosts`.
#
# Commands of an administrator run on $admin, a host with a mount: it is never lost.
admin=${mounts%% *}
first_mds=${mds_hosts%% *}
key=$place/$first_mds/cluster.key

etcd_members=$(for host in $mds_hosts; do echo "$host=http://$(address "$host"):2380"; done | paste -s -d ,)
etcd_clients=$(for host in $mds_hosts; do echo "http://$(address "$host"):2379"; done | paste -s -d ,)
etcd_flags=()
for host in $mds_hosts; do etcd_flags+=(--etcd "http://$(address "$host"):2379"); done

start_etcd() {
    local host=$1 at
    at=$(address "$host")
    # Not through `on`: the recorded process id must be that of etcd itself.
    nsenter --net="$(network "$host")" etcd --name "$host" --data-dir "$place/$host.etcd" --initial-cluster "$etcd_members" \
        --listen-client-urls "http://$at:2379" --advertise-client-urls "http://$at:2379" \
        --listen-peer-urls "http://$at:2380" --initial-advertise-peer-urls "http://$at:2380" >>"$place/$host.etcd.log" 2>&1 &
    pid[$host-etcd]=$!
}
etcd_control() { on "$admin" etcdctl --endpoints "$etcd_clients" "$@"; }
wait_for_etcd() {
    for _ in $(seq 100); do
        etcd_control endpoint health >/dev/null 2>&1 && return
        sleep 0.1
    done
    tail -n 5 "$place"/*.etcd.log >&2
    fail "etcd has no leader, or lacks a member"
}
# The host of etcd's leader. etcdctl prints a line for each member: its address, its number, version, size, whether it leads, …
etcd_leader() {
    local address host
    address=$(etcd_control endpoint status | awk -F ', ' '$5 == "true" {print $1}')
    for host in $mds_hosts; do
        [ "$address" != "http://$(address "$host"):2379" ] || echo "$host"
    done
}
# lead_etcd HOST: this host's member becomes etcd's leader.
lead_etcd() {
    local member
    wait_for_etcd
    if [ "$(etcd_leader)" != "$1" ]; then
        member=$(etcd_control endpoint status | awk -F ', ' -v address="http://$(address "$1"):2379" '$1 == address {print $2}')
        on "$admin" etcdctl --endpoints "http://$(address "$(etcd_leader)"):2379" move-leader "$member" >/dev/null
        # A new leader of etcd prolongs all leases by its election timeout; then the owner renews its lease as usual.
        sleep 2
    fi
    [ "$(etcd_leader)" = "$1" ] || fail "etcd's member on $1 does not lead"
}

# start_metadata HOST: an empty directory becomes a copy of the metadata; that of the first host, a new file system.
start_metadata() {
    local host=$1 join=()
    [ "$host" = "$first_mds" ] || [ -e "$place/$host/mds" ] || join=(--join "$(address "$first_mds")" --key "$key")
    start "$host" mds "$place/$host" --listen "$(address "$host"):7700" --root-squash false "${etcd_flags[@]}" "${join[@]}"
}

# Sets owner, epoch, members, counting, behind, unsynced and etcd_answers to what the owner lists. Fails if no metadata server answers.
take_copies() {
    local json host numbers
    json=$(on "$admin" "$gupfs" mds list --mds "$mds" --key "$key" --json 2>/dev/null) || return 1
    numbers=$(failover copies <<<"$json")
    eval "$numbers"
    owner=
    for host in $mds_hosts; do [ "$owner_address" != "$(address "$host"):7700" ] || owner=$host; done
}
show_copies() { on "$admin" "$gupfs" mds list --mds "$mds" --key "$key" | with_names | sed 's/^/      /'; }
with_names() { sed "$(for host in $mds_hosts; do echo "s|$(address "$host" | sed 's/\./\\./g'):7700|$host|;"; done)"; }

# Waits until all copies count; sets `counting_in` to the seconds since $1.
wait_until_copies_count() {
    until take_copies && [ "$counting" = "$(wc -w <<<"$mds_hosts")" ]; do
        programs_work
        [ "$(calc "\"%d\", $(now) - $1")" -lt 60 ] || { show_copies >&2; fail "not all copies of the metadata count after 60 s"; }
        sleep 0.2
    done
    counting_in=$(since "$1")
}

# wait_for_take_over FORMER MOMENT: waits until another host owns the metadata, and shows the copies.
wait_for_take_over() {
    until take_copies && [ "$owner" != "$1" ]; do
        programs_work
        [ "$(calc "\"%d\", $(now) - $2")" -lt 60 ] || fail "no copy has taken over for 60 s"
        sleep 0.1
    done
    note "$owner owns the metadata $(since "$2") s later:"
    show_copies
}

# The number of times that the process of this host, as the former owner, has gone on as a copy.
times_deposed() { grep -c "this host goes on as a copy" "$place/$1.out" || true; }
