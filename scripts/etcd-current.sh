#!/bin/bash
# Builds a current etcd and its etcdctl with Go, from the Go module proxy, unless the directory has them; prints nothing else than errors.
#   etcd-current.sh DIR    makes DIR/etcd and DIR/etcdctl
# ETCD_VERSION: another version than 3.6.16. GO: another go than that in PATH or /usr/local/go/bin.
set -eu -o pipefail

dir=${1:?etcd-current.sh DIR}
version=v${ETCD_VERSION:-3.6.16}
go=${GO:-$(PATH="$PATH:/usr/local/go/bin" command -v go || true)}
[ -n "$go" ] || { echo "Go is not installed: a current etcd cannot be built" >&2; exit 3; }

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ "$(cat "$dir/version" 2>/dev/null)" != "$version" ] || exit 0

# etcd's modules replace each other in its repository, so `go install module@version` refuses them: a module that requires them builds them.
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"
cat > go.mod <<END
module current-etcd

go 1.24

require (
	go.etcd.io/etcd/etcdctl/v3 $version
	go.etcd.io/etcd/server/v3 $version
)
END
export GOFLAGS=-mod=mod CGO_ENABLED=0
"$go" build -o "$dir/etcd" go.etcd.io/etcd/server/v3
"$go" build -o "$dir/etcdctl" go.etcd.io/etcd/etcdctl/v3
# Last: if this file exists, the programs do.
echo "$version" > "$dir/version"
