#!/usr/bin/env bash
# Makes sure of what building and running need: cargo, a C compiler, PostgreSQL's server programs.
# Says nothing and takes no time when all of it is there.
#
#   scripts/setup.sh            check, and fetch PostgreSQL where it is missing
#   scripts/setup.sh --pg-bin   the same, then print the folder of PostgreSQL's programs
#
# As root PostgreSQL comes from the distribution's package. An ordinary user cannot install one, so
# the same packages are downloaded and unpacked into a folder of that user's.
#
# WEIR_PG_BIN     folder with initdb, pg_ctl and postgres; nothing else is looked at
# WEIR_PG_SYSTEM  where the distribution keeps its versions [/usr/lib/postgresql]

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

MIN_CARGO=1.94
SYSTEM=${WEIR_PG_SYSTEM:-/usr/lib/postgresql}
# The services look at this folder, too; its name is part of that agreement.
UNPACKED=${HOME:-/nonexistent}/.cache/weir/postgres
PROGRAMS=(initdb pg_ctl postgres)

check_toolchain() {
	have cargo || die "cargo is missing; install Rust $MIN_CARGO or newer with rustup"
	local version
	version=$(cargo --version) || die "cargo does not run; try \`cargo --version\`"
	version=${version#cargo }
	version=${version%% *}
	if [ "$(printf '%s\n%s\n' "$MIN_CARGO" "$version" | sort -V | head -n 1)" != "$MIN_CARGO" ]; then
		die "cargo $version is too old; Weir needs $MIN_CARGO or newer (\`rustup update stable\`)"
	fi
	have "${CC:-cc}" || die "a C compiler is missing; on Debian or Ubuntu: apt-get install gcc libc6-dev"
}

complete() {
	local program
	for program in "${PROGRAMS[@]}"; do
		[ -x "$1/$program" ] || return 1
	done
}

# The newest version below a folder, or nothing.
newest() {
	local directory
	for directory in "$1"/*/bin; do
		if complete "$directory"; then printf '%s\n' "$directory"; fi
	done | sort -V | tail -n 1
}

find_postgres() {
	if [ -n "${WEIR_PG_BIN:-}" ]; then
		complete "$WEIR_PG_BIN" || die "WEIR_PG_BIN=$WEIR_PG_BIN has no initdb, pg_ctl and postgres"
		printf '%s\n' "$WEIR_PG_BIN"
		return
	fi
	local found
	found=$(newest "$SYSTEM")
	# An unpack that was cut short has no env file: it is written last.
	if [ -z "$found" ] && [ -s "$UNPACKED/env" ]; then
		found=$(newest "$UNPACKED/usr/lib/postgresql")
	fi
	printf '%s' "$found"
}

install_as_root() {
	have apt-get || die "PostgreSQL is missing and this system has no apt-get;" \
		"install PostgreSQL's server and set WEIR_PG_BIN to the folder of its programs"
	say "setup: installing PostgreSQL from the distribution's packages"
	# Debian starts a cluster of its own on port 5432 when the package is installed. Weir does not
	# need it, and the wish is taken back afterwards so that a later install behaves as usual.
	local wish=/etc/postgresql-common/createcluster.d/zz-weir-setup.conf
	mkdir -p "${wish%/*}"
	echo 'create_main_cluster = false' >"$wish"
	local status=0
	apt_install postgresql || status=$?
	rm -f "$wish"
	[ "$status" = 0 ] || die "apt-get could not install \`postgresql\`; its last words are above"
}

# apt-get and apt-cache as an ordinary user, with package lists of that user's own where the
# machine's are missing or too old to name a file that can still be downloaded.
APT_OPTIONS=()
own_lists() {
	local state=$UNPACKED/apt
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	APT_OPTIONS=(-o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache")
	quietly apt-get -qq "${APT_OPTIONS[@]}" update
}

depends() {
	apt-cache "${APT_OPTIONS[@]}" depends --no-recommends --no-suggests --no-conflicts \
		--no-breaks --no-replaces --no-enhances "$@" 2>/dev/null |
		sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}Depends: \([a-z0-9.+-]*\).*/\2/p' | sort -u
}

server_package() {
	# The metapackage depends on `postgresql-15`, or whatever the distribution has.
	depends postgresql | grep -E '^postgresql-[0-9]+$' | sort -V | tail -n 1 || true
}

download_and_unpack() {
	local debs=$UNPACKED/debs
	mkdir -p "$debs"
	(cd "$debs" && quietly apt-get -qq "${APT_OPTIONS[@]}" download "$@") || return 1
	local deb
	for deb in "$debs"/*.deb; do
		dpkg-deb -x "$deb" "$UNPACKED"
		rm -f "$deb"
	done
}

library_path() {
	local path='' directory
	for directory in "$UNPACKED"/usr/lib/*-linux-gnu* "$UNPACKED"/lib/*-linux-gnu* "$UNPACKED"/usr/lib; do
		if [ -d "$directory" ]; then path=$path:$directory; fi
	done
	printf '%s' "${path#:}"
}

missing_libraries() {
	local program
	for program in "$1"/initdb "$1"/pg_ctl "$1"/postgres "$1"/psql; do
		LD_LIBRARY_PATH=$(library_path) ldd "$program" 2>/dev/null | awk '/not found/ { print $1 }'
	done | sort -u
}

unpack_as_user() {
	if ! have apt-get || ! have dpkg-deb; then
		die "PostgreSQL is missing and this system has no apt-get;" \
			"install PostgreSQL's server and set WEIR_PG_BIN to the folder of its programs"
	fi
	say "setup: PostgreSQL is missing; unpacking the distribution's packages into $UNPACKED"
	rm -rf "$UNPACKED"
	mkdir -p "$UNPACKED"
	local server first
	server=$(server_package)
	first=("$server" "${server/postgresql-/postgresql-client-}" libpq5)
	if [ -z "$server" ] || ! download_and_unpack "${first[@]}" 2>/dev/null; then
		own_lists || die "the distribution's package lists cannot be read; is the network there?"
		server=$(server_package)
		[ -n "$server" ] || die "the distribution has no package \`postgresql\`"
		first=("$server" "${server/postgresql-/postgresql-client-}" libpq5)
		download_and_unpack "${first[@]}" || die "cannot download ${first[*]}"
	fi
	local bin
	bin=$(newest "$UNPACKED/usr/lib/postgresql")
	[ -n "$bin" ] || die "the package \`$server\` holds no server programs"

	# Libraries that the machine lacks: those the packages depend on, then those these depend on.
	# Without LLVM: it is for compiling queries only, big, and the server starts without it.
	local names=("${first[@]}") tried=' ' wanted name
	while [ -n "$(missing_libraries "$bin")" ]; do
		wanted=()
		while read -r name; do
			case $name in libllvm* | libc6 | libgcc-s1 | libstdc++6) continue ;; esac
			if [[ $tried != *" $name "* ]]; then
				wanted+=("$name")
				tried+="$name "
			fi
		done < <(depends "${names[@]}" | grep '^lib')
		if [ ${#wanted[@]} = 0 ]; then
			die "libraries are missing and no package was found for them:" \
				"$(missing_libraries "$bin" | tr '\n' ' ')"
		fi
		say "setup: also unpacking ${wanted[*]}"
		download_and_unpack "${wanted[@]}" || die "cannot download ${wanted[*]}"
		names=("${wanted[@]}")
	done

	try_unpacked "$bin"
	printf 'LD_LIBRARY_PATH=%s\n' "$(library_path)" >"$UNPACKED/env"
	rm -rf "$UNPACKED/debs" "$UNPACKED/apt"
	say "setup: PostgreSQL's programs are in $bin"
}

# A server that starts once will start again; one that does not must be known now.
try_unpacked() {
	local data
	data=$(mktemp -d)
	quietly env LD_LIBRARY_PATH="$(library_path)" "$1/initdb" -D "$data/pgdata" -U postgres \
		-A trust -E UTF8 --locale=C.UTF-8 --no-sync || {
		rm -rf "$data"
		die "the unpacked PostgreSQL does not run; its last words are above"
	}
	rm -rf "$data"
}

check_toolchain
bin=$(find_postgres)
if [ -z "$bin" ]; then
	# Only one of several makes at the same time may unpack.
	if is_root; then install_as_root; else
		mkdir -p "${UNPACKED%/*}"
		exec 9>"${UNPACKED%/*}/setup.lock"
		if have flock; then flock 9; fi
		bin=$(find_postgres)
		if [ -z "$bin" ]; then unpack_as_user; fi
	fi
	bin=$(find_postgres)
	[ -n "$bin" ] || die "PostgreSQL's server programs are still missing below $SYSTEM"
fi
if [ "${1:-}" = --pg-bin ]; then printf '%s\n' "$bin"; fi
