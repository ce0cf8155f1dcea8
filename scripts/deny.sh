#!/usr/bin/env bash
# Runs cargo-deny's checks: scripts/deny.sh bans licenses sources, or advisories.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

status=0
deny=$(scripts/tool.sh cargo-deny) || status=$?
if [ "$status" = 3 ]; then
	skip "dependencies ($*)" "cargo-deny cannot be had on this machine"
	exit 0
fi
[ "$status" = 0 ] || exit "$status"
"$deny" --locked check --hide-inclusion-graph "$@"
