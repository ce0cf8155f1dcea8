#!/usr/bin/env bash
# Runs every test: with cargo-nextest where it is, else with cargo alone; then the documentation's.
# The last line counts them all.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0 status=0

# Runs and shows a command, and keeps what it said for counting.
shown() {
	local code=0
	"$@" 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
	return "$code"
}

# `Summary [ 3.2s] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped`
count_nextest() {
	local line
	line=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E '^ *Summary \[' | tail -n 1 || true)
	count "$line"
}

# `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; ..`, once for each program
count_cargo() {
	local line
	while read -r line; do
		count "${line//ignored/skipped}"
	done < <(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E '^test result:' || true)
}

number_before() { grep -oE "[0-9]+ $1" <<<"$2" | head -n 1 | cut -d ' ' -f 1 || true; }

count() {
	local number word
	for word in passed failed skipped; do
		number=$(number_before "$word" "$1")
		printf -v "$word" %d $((${!word} + ${number:-0}))
	done
	# Neither passed nor failed in nextest's words, but no success.
	for word in 'timed out' 'exec failed'; do
		number=$(number_before "$word" "$1")
		failed=$((failed + ${number:-0}))
	done
}

if cargo nextest --version >/dev/null 2>&1; then
	shown cargo nextest run --workspace --locked --no-fail-fast "$@" || status=$?
	count_nextest
else
	say "cargo-nextest is not installed; cargo runs the tests one program after the other"
	shown cargo test --workspace --locked --lib --bins --tests --no-fail-fast "$@" || status=$?
	count_cargo
fi
# A name given to `scripts/test.sh` asks for some tests, not for the documentation's.
if [ $# = 0 ]; then
	code=0
	shown cargo test --workspace --locked --doc --no-fail-fast || code=$?
	count_cargo
	[ "$status" != 0 ] || status=$code
fi
printf '\ntests: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
if [ "$status" = 0 ] && [ "$passed" = 0 ]; then die "no test was run"; fi
exit "$status"
