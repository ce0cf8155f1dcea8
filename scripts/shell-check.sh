#!/usr/bin/env bash
# Checks the shell scripts: with shellcheck where it is, else that they parse.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

scripts=(scripts/*.sh .ci/run)
for script in "${scripts[@]}"; do
	bash -n "$script"
done
if ! have shellcheck && is_root; then
	say "tools: installing shellcheck from the distribution's packages"
	apt_install shellcheck || true
fi
if have shellcheck; then
	shellcheck --external-sources "${scripts[@]}"
	say "scripts: ${#scripts[@]} are clean"
else
	skip "shell scripts beyond their syntax" "shellcheck is missing; apt-get install shellcheck"
fi
