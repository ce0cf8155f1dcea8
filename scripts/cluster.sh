#!/usr/bin/env bash
# A private PostgreSQL for scripts, on a socket only.
#
#   scripts/cluster.sh start FOLDER   starts it (and makes it, where FOLDER is empty); prints the
#                                     address of its database `weir`
#   scripts/cluster.sh stop FOLDER    stops it
#
# FOLDER must be short (a socket's path has at most 107 bytes) and, as root, reachable by the user
# `postgres`: /tmp is right. It loses data on a power cut; it is for demonstrations and checks.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

action=${1:-}
folder=${2:-}
[ -n "$folder" ] || die "usage: scripts/cluster.sh start|stop FOLDER"
bin=$("$ROOT/scripts/setup.sh" --pg-bin)

# PostgreSQL refuses root.
run() {
	if is_root; then
		setpriv --reuid "$(id -u "$account")" --regid "$(id -g "$account")" --clear-groups \
			env -i PATH=/usr/bin:/bin HOME=/ LC_ALL=C.UTF-8 TZ=UTC \
			${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} "$@"
	else
		env LC_ALL=C.UTF-8 TZ=UTC "$@"
	fi
}
account=postgres
if is_root && ! id postgres >/dev/null 2>&1; then account=nobody; fi
case $bin in
*/.cache/weir/postgres/*)
	# Unpacked programs bring their own libraries.
	LD_LIBRARY_PATH=$(sed -n 's/^LD_LIBRARY_PATH=//p' "${bin%/usr/lib/*}/env")
	export LD_LIBRARY_PATH
	;;
esac

case $action in
start)
	mkdir -p "$folder"
	chmod 700 "$folder"
	folder=$(cd "$folder" && pwd -P)
	if is_root; then chown "$account" "$folder"; fi
	cd /
	if [ ! -s "$folder/data/PG_VERSION" ]; then
		quietly run "$bin/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 \
			--locale=C.UTF-8 --no-sync
	fi
	quietly run "$bin/pg_ctl" -D "$folder/data" -w -t 60 -l "$folder/server.log" \
		-o "-c listen_addresses= -c unix_socket_directories=$folder -c fsync=off -c max_connections=200" start
	if [ -x "$bin/psql" ]; then psql=$bin/psql; else psql=psql; fi
	if [ -z "$(run "$psql" -h "$folder" -U postgres -tAc "SELECT 1 FROM pg_database WHERE datname = 'weir'" postgres)" ]; then
		quietly run "$psql" -h "$folder" -U postgres -c 'CREATE DATABASE weir' postgres
	fi
	printf 'postgres://postgres@localhost/weir?host=%s\n' "$folder"
	;;
stop)
	folder=$(cd "$folder" && pwd -P)
	cd /
	if [ -s "$folder/data/postmaster.pid" ]; then
		quietly run "$bin/pg_ctl" -D "$folder/data" -m fast -w stop
	fi
	;;
*) die "usage: scripts/cluster.sh start|stop FOLDER" ;;
esac
