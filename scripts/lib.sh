# shellcheck shell=bash
# What every script here shares. Sourced, never run.

set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
export ROOT

# Fetched tools stand here; never in git.
export TOOLS=${WEIR_TOOLS:-$ROOT/.tools}

# One line of progress, on standard error: standard output is for results.
say() { printf '%s\n' "$*" >&2; }

# One line that says what is wrong and what to do about it; then the end.
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" = 0 ]; }

# A check that cannot be made here. On a person's machine it is passed over loudly; in CI nothing
# may be passed over, or a green run would mean less than it says.
skip() {
	if [ -n "${CI:-}" ]; then
		die "$1 could not be checked, and CI checks everything: $2"
	fi
	say ""
	say "#################### SKIPPED: $1"
	say "####################   because: $2"
	say ""
}

# Runs a noisy command quietly: its output is shown only when it fails.
quietly() {
	local log status=0
	log=$(mktemp)
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" != 0 ]; then
		say "failed: $*"
		tail -n 30 "$log" >&2
	fi
	rm -f "$log"
	return "$status"
}

# Installs Debian packages as root, with a fresh list of packages, once per script.
APT_UPDATED=
apt_install() {
	have apt-get || return 1
	if [ -z "$APT_UPDATED" ]; then
		quietly apt-get update -qq || return 1
		APT_UPDATED=yes
	fi
	quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}
