#!/usr/bin/env bash
# Tries the Debian package in a fresh Debian 12 with systemd as its process 1: install, start, write, restart of the host, an upgrade while a
# program writes, removal and purge. Prints the time from the installation to the first file on a mount. Leaves nothing behind but the copy of
# Debian 12 that it begins with, in CACHE.
#
#   scripts/test-package.sh PATH-OF-THE-PACKAGE [CACHE]
#
# Needs root, mmdebstrap and systemd-container.
set -eu -o pipefail
package=$(realpath "${1:?usage: test-package.sh PATH-OF-THE-PACKAGE [CACHE]}")
project=$(realpath "$(dirname "$0")/..")
cache=${2:-${CARGO_TARGET_DIR:-$project/target}/debian12}
[ "$(id -u)" = 0 ] || { echo "this boots a container: run it as root" >&2; exit 1; }
for tool in mmdebstrap systemd-nspawn; do
    command -v "$tool" >/dev/null || { echo "'$tool' is missing: apt-get install mmdebstrap systemd-container" >&2; exit 1; }
done

if ! [ -e "$cache/etc/debian_version" ]; then
    echo "making a Debian 12 in $cache (a few minutes, once)"
    rm -rf "$cache"
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,udev,fuse3,python3-minimal bookworm "$cache.new"
    mv "$cache.new" "$cache"
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/gupfs-package.XXXXXX")
host=$place/host
trap 'status=$?; trap - EXIT; [ -z "${container:-}" ] || kill "$container" 2>/dev/null; wait 2>/dev/null; rm -rf "$place"; exit $status' EXIT
trap 'exit 130' INT TERM
cp -a "$cache" "$host"
cp "$package" "$host/root/gupfs.deb"
mkdir "$host/root/steps"

# boot STEP: starts the host with this script of its own as the last service, which stops the host; prints what it said. Fails if it failed.
boot() {
    printf '\n\033[1m%s\033[0m\n' "$1"
    cat >"$host/root/steps/run.sh"
    rm -f "$host/root/steps/code"
    cat >"$host/etc/systemd/system/step.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'sh -euc "\$(cat /root/steps/run.sh)" >/root/steps/said 2>&1; echo \$? >/root/steps/code'
ExecStartPost=systemctl poweroff
TimeoutStartSec=300
UNIT
    mkdir -p "$host/etc/systemd/system/default.target.wants"
    ln -sf ../step.service "$host/etc/systemd/system/default.target.wants/step.service"
    systemd-nspawn --quiet --directory="$host" --boot --register=no --keep-unit --private-network --machine="gupfs$$" \
        --bind=/dev/fuse --capability=CAP_SYS_ADMIN >"$place/console" 2>&1 </dev/null &
    container=$!
    for _ in $(seq 360); do
        kill -0 "$container" 2>/dev/null || break
        sleep 1
    done
    wait "$container" || true
    container=
    sed 's/^/   /' "$host/root/steps/said"
    if [ "$(cat "$host/root/steps/code" 2>/dev/null)" != 0 ]; then
        echo "this step failed; the console said:" >&2
        tail -n 30 "$place/console" >&2
        exit 1
    fi
}

boot "install, start, write" <<'STEP'
begun=$(date +%s.%N)
dpkg -i /root/gupfs.deb
mkdir -p /mnt/gupfs /mnt/other /srv/osts
# One machine is metadata server, object server and mount, each a service of its own.
systemctl start gupfs-mds
cp -p /srv/gupfs/cluster.key /etc/gupfs/cluster.key
sed -i 's/"node1"/"127.0.0.1"/' /etc/gupfs/oss.toml /etc/gupfs/mount.toml
gupfs ost add /srv/osts/disk1 --mds 127.0.0.1
systemctl start gupfs-oss
gupfs key client here /srv/gupfs --root && mv here.key /etc/gupfs/client.key
systemctl start gupfs-mount
echo first > /mnt/gupfs/file
python3 -c "import time; print(f'from dpkg to the first file on the mount: {time.time() - $begun:.1f} s')"
systemctl is-active gupfs-mds gupfs-oss gupfs-mount
systemctl show --property=StatusText --value gupfs-mds gupfs-oss gupfs-mount
# mount(8), and fstab
echo '127.0.0.1:/ /mnt/other gupfs _netdev,nofail 0 0' >> /etc/fstab
mount /mnt/other
grep first /mnt/other/file
head -c 3000000 /dev/urandom > /mnt/other/random
sha256sum < /mnt/gupfs/random > /root/sum
umount /mnt/other
! mount -t gupfs nowhere.invalid:/ /mnt/other -o bogus
systemctl enable gupfs-mds gupfs-oss
gupfs completions bash | cmp - /usr/share/bash-completion/completions/gupfs
zcat /usr/share/man/man1/gupfs.1.gz > /dev/null
STEP

boot "after a restart of the host: all is there" <<'STEP'
systemctl is-active gupfs-mds gupfs-oss
# fstab has mounted it.
for _ in $(seq 100); do mountpoint -q /mnt/other && break; sleep 0.2; done
mountpoint /mnt/other
grep first /mnt/other/file
sha256sum < /mnt/other/random | cmp - /root/sum
STEP

boot "an upgrade while a program writes" <<'STEP'
for _ in $(seq 100); do mountpoint -q /mnt/other && break; sleep 0.2; done
python3 - <<'PYTHON' &
import os, time
longest, count, begun = 0, 0, time.monotonic()
while not os.path.exists("/root/upgraded") or time.monotonic() - begun < 5:
    before = time.monotonic()
    with open(f"/mnt/other/w{count}", "w") as file:
        file.write(str(count))
        os.fsync(file.fileno())
    longest, count = max(longest, time.monotonic() - before), count + 1
for number in range(count):
    assert open(f"/mnt/other/w{number}").read() == str(number)
print(f"{count} files written and read again, none with an error; longest wait {longest:.1f} s")
PYTHON
writer=$!
sleep 2
before=$(systemctl show --property=MainPID --value gupfs-mds)
dpkg -i /root/gupfs.deb
[ "$before" != "$(systemctl show --property=MainPID --value gupfs-mds)" ]
touch /root/upgraded
wait $writer
STEP

boot "removal and purge: services end, the store stays" <<'STEP'
for _ in $(seq 100); do mountpoint -q /mnt/other && break; sleep 0.2; done
mountpoint /mnt/other
dpkg -r gupfs
! systemctl is-active gupfs-mds
! command -v gupfs
[ -e /etc/gupfs/mds.toml ]
dpkg -P gupfs
[ -e /srv/gupfs/cluster.key ] && [ -e /srv/osts/disk1 ]
[ ! -e /etc/gupfs/mds.toml ]
umount /mnt/other 2>/dev/null || true
STEP
printf '\nthe package works\n'
