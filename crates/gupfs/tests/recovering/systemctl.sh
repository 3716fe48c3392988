#!/bin/sh
# Stands in for systemctl(1) in the test: starts the ExecStart of a unit in /etc/systemd/system, and again when it ends, as
# Restart= and RestartSec= say. As with Type=simple, `start` does not wait until the daemon serves.
set -eu
run=/run/units

setting() { sed -n "s/^$1=//p" "/etc/systemd/system/$2.service"; }

supervise() {
	while :; do
		# The daemon leads a session of its own: what signals the supervisor does not reach it.
		setsid $(setting ExecStart "$1") &
		echo $! >"$run/$1.main"
		code=0
		wait $! || code=$?
		rm "$run/$1.main"
		[ ! -e "$run/$1.stopping" ] || break
		[ "$code" != 0 ] || [ "$(setting Restart "$1")" = always ] || break
		sleep "$(setting RestartSec "$1")"
		[ ! -e "$run/$1.stopping" ] || break
	done
	rm -f "$run/$1.supervisor" "$run/$1.stopping"
}

start() {
	[ ! -e "$run/$1.supervisor" ] || return 0
	"$0" supervise "$1" </dev/null >>"/var/log/$1.log" 2>&1 &
	echo $! >"$run/$1.supervisor"
	while [ -e "$run/$1.supervisor" ] && [ ! -e "$run/$1.main" ]; do sleep 0.01; done
}

# Signals the unit's daemon with $2. One that ends at the same moment needs no signal.
signal() {
	pid=$(cat "$run/$1.main" 2>/dev/null) || return 0
	kill "$2" "$pid" 2>/dev/null || true
}

# With this signal; it is not started again.
stop() {
	[ -e "$run/$1.supervisor" ] || return 0
	touch "$run/$1.stopping"
	signalled=
	# The supervisor may have looked just before the touch, and starts one more daemon: each one is signalled once.
	while [ -e "$run/$1.supervisor" ]; do
		main=$(cat "$run/$1.main" 2>/dev/null) || main=$signalled
		[ "$main" = "$signalled" ] || signal "$1" "$2"
		signalled=$main
		sleep 0.01
	done
}

command=$1
shift
[ "$command" != kill ] || shift 2 # -s KILL
for unit; do
	case $command in
	supervise) supervise "$unit" ;;
	start) start "$unit" ;;
	stop) stop "$unit" -TERM ;;
	kill) signal "$unit" -KILL ;;
	restart) stop "$unit" -TERM && start "$unit" ;;
	# A power cut, as the test sees it.
	cut) stop "$unit" -KILL ;;
	*) echo "systemctl: the test knows no '$command'" >&2 && exit 1 ;;
	esac
done
