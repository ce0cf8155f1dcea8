#!/usr/bin/env bash
# Lints the contracts and compares them with those of the previous release.
#
# proto/released.binpb is the descriptor set of that release; a release writes it with
# `scripts/proto-check.sh --release`.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

status=0
buf=$(scripts/tool.sh buf) || status=$?
if [ "$status" = 3 ]; then
	skip "proto lint and breaking changes" "buf cannot be had on this machine"
	exit 0
fi
[ "$status" = 0 ] || exit "$status"

released=proto/released.binpb
if [ "${1:-}" = --release ]; then
	"$buf" build proto --exclude-source-info -o "$released"
	say "proto: wrote $released"
	exit 0
fi

"$buf" lint proto
say "proto: lint is clean"
if [ -f "$released" ]; then
	"$buf" breaking proto --against "$released"
	say "proto: nothing breaks callers of the previous release"
else
	say "proto: no earlier release to compare with"
fi
