#!/usr/bin/env bash
# `make demo`: what Weir does, on sample webhooks, with the command line that a user has.
# Starts Weir on a free port with data of its own, shows each step, stops, and removes the data.
# PROCESSES=5 does the same with each service in a process of its own.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/serve.sh
. "$ROOT/scripts/serve.sh"
cd "$ROOT"

# Short and open to PostgreSQL's user: a socket's path is short, and root starts it as another user.
folder=$(mktemp -d /tmp/weir-demo.XXXXXX)
chmod 755 "$folder"
end() {
	local status=$?
	serve_stop
	if [ "$status" = 0 ]; then rm -rf "$folder"; else say "the logs are in $folder"; fi
	exit "$status"
}
trap end EXIT
trap 'exit 130' INT TERM

step=0
title() {
	step=$((step + 1))
	printf '\n%d. %s\n' "$step" "$*"
}

# Shows a command as a user would type it, runs it, and indents its answer.
weir() {
	local word shown=
	for word in "$@"; do
		if [[ $word =~ ^[A-Za-z0-9._/:=@,+-]+$ ]]; then shown+=" $word"; else shown+=" '$word'"; fi
	done
	printf '   $ weir%s\n' "$shown"
	"$BIN/weir" "$@" 2>&1 | sed 's/^/     /'
}

# first FIELD COMMAND..: a field of the first thing that a command answers.
first() {
	local field=$1
	shift
	"$BIN/weir" --json "$@" | grep -oE "\"$field\" *: *\"[^\"]*\"" | sed -n '1s/.*"\([^"]*\)"$/\1/p'
}

# Routing goes on behind the acceptance; wait for the fact, not for a time.
settled() {
	local deadline=$((SECONDS + 30))
	while [ -n "$(first uid events list --unrouted)" ]; do
		if [ "$SECONDS" -ge "$deadline" ]; then die "events are still unrouted after 30 s"; fi
		sleep 0.1
	done
}

say "starting Weir (${PROCESSES:-1} process$([ "${PROCESSES:-1}" = 1 ] || echo es)) on a PostgreSQL of its own"
serve_start "$folder"
printf 'Weir is ready on %s\n' "$WEIR_URL"

title "GitHub sends $(wc -l <demo/samples.jsonl) signed webhooks"
weir replay demo/samples.jsonl --hook demo/github/github
settled
title "The same file again: every delivery is recognised, nothing is accepted twice"
weir replay demo/samples.jsonl --hook demo/github/github

title "Each event was decided; events of one issue or pull request share one Work"
weir events list
weir work list

title "What would become of an event that nobody has sent? A trace decides it and writes nothing"
weir trace --scope github --type issues.opened --data '{"action":"opened","sender":{"type":"User"},"issue":{"number":9,"node_id":"I_9"}}'

title "An event that belongs to two Works at once stays unrouted; an operator skips it"
weir events publish --scope github --source demo --id conflict-1 --type issues.opened --data '{}' \
	--key 'issue/tidewater/sluice#1' --key 'issue/tidewater/sluice#2'
conflict=$(first uid events get --source demo --id conflict-1)
[ -n "$conflict" ] || die "the event of two Works is not there"
weir events skip "$conflict" --reason 'names two issues'

title "A push matched no route; an operator has it routed again, as a copy that can be told apart"
unmatched=$(first uid events list --disposition unmatched --type push)
[ -n "$unmatched" ] || die "no push was unmatched"
weir events reroute "$unmatched" --reason 'routes were changed'
settled
weir events list --type push

title "A program works: it gets its inputs as JSON lines, and its exit code decides"
# shellcheck disable=SC2016
weir worker --binding triage --concurrency 2 --idle-exit 2s -- \
	sh -c 'echo "$(wc -l) inputs" >&2'
weir work list
open=$("$BIN/weir" --json work list | grep -cE '"state" *: *"WORK_STATE_(READY|RUNNING)"' || true)
[ "$open" = 0 ] || die "the worker left Work undone"

printf '\nAll of it is in one PostgreSQL, and each step was one transaction. To keep it up: make run\n'
