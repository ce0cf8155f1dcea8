#!/usr/bin/env bash
# Every rule of Weir is named by a test, or stands in docs/RULES-OPEN.md with what is missing.
#
# A test names its rules at the start of its function's name: `r50_missing_field_is_a_skip`,
# `r50_r51_both_handlers_answer_alike`. A line `- r50 ..` in docs/RULES-OPEN.md says that the rule is
# open. A rule may be in both only when its line begins `- r50 partly:`.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "${RULES_ROOT:-$ROOT}"

OPEN=docs/RULES-OPEN.md

# The one list of rule ids.
rules() {
	printf '%s\n' a0{1..7} r0{1..9} r{10..28} r{30..34} r{40..48} r{50..52} \
		l0{1..9} l{10..18} c0{1..9} c10 m0{1..5} o0{1..8}
}

sources() {
	find shared services -name '*.rs' -not -path '*/target/*' 2>/dev/null || true
}

# `id place` for each rule in the name of a function that is a test: one with a test attribute
# above it (#[test], #[tokio::test], ..), or one inside `proptest! { .. }`, which has one too.
tested() {
	# shellcheck disable=SC2016
	sources | sort | xargs -r awk '
		FNR == 1 { test = 0 }
		/^[ \t]*#\[([a-z_]+::)*test(\]|\()/ { test = 1; next }
		# More attributes, comments and blank lines may stand between.
		/^[ \t]*(#|\/\/|$)/ { next }
		test && match($0, /(^|[ \t])fn [a-z0-9_]+/) {
			name = substr($0, RSTART, RLENGTH)
			sub(/.*fn /, "", name)
			place = FILENAME ":" FNR
			while (match(name, /^[arlcmo][0-9][0-9](_|$)/)) {
				print substr(name, 1, 3), place
				name = substr(name, 5)
			}
			test = 0
			next
		}
		# The rest of an attribute of several lines ends the same way as a statement does.
		/[;{}]/ { test = 0 }
	'
}

# `id place kind` for each line of the open list; kind is `open` or `partly`.
open_rules() {
	[ -f "$OPEN" ] || return 0
	awk -v file="$OPEN" '
		match($0, /^- [a-z][0-9]+([ \t:]|$)/) {
			kind = ($0 ~ /^- [a-z][0-9]+ partly:/) ? "partly" : "open"
			id = $2
			sub(/:$/, "", id)
			print id, file ":" FNR, kind
		}
	' "$OPEN"
}

# The four lists meet in one program; each line starts with where it comes from.
{
	rules | sed 's/^/rule /'
	tested | sed 's/^/test /'
	open_rules | sed 's/^/open /'
} | awk '
	$1 == "rule" { known[$2] = 1; order[++count] = $2 }
	$1 == "test" {
		if (!($2 in known)) { problem($3 ": the test names `" $2 "`, which is no rule") }
		else { tests[$2]++; where[$2] = $3 }
	}
	$1 == "open" {
		if (!($2 in known)) { problem($3 ": `" $2 "` is no rule") }
		else if ($2 in opened) { problem($3 ": `" $2 "` is listed twice") }
		else { opened[$2] = $4; line[$2] = $3 }
	}
	function problem(text) { print text; problems++ }
	END {
		missing = ""
		for (i = 1; i <= count; i++) {
			id = order[i]
			if (id in tests) { covered++ }
			if (id in opened) {
				if (opened[id] == "partly") { partly++ } else { open_count++ }
			}
			if (!(id in tests) && !(id in opened)) { missing = missing " " id; lacking++ }
			if ((id in tests) && opened[id] == "open")
				problem(line[id] ": `" id "` is tested at " where[id] "; remove the line, or begin it `- " id " partly:`")
			if (!(id in tests) && opened[id] == "partly")
				problem(line[id] ": `" id "` is partly open, but no test names it")
		}
		if (lacking) problem(lacking " rules have no test and are not in docs/RULES-OPEN.md:" missing)
		printf "rules: %d in all, %d named by tests, %d open, %d of the tested ones partly open\n",
			count, covered, open_count, partly
		exit problems > 0
	}
' || die "the rules and the tests disagree; see above"
