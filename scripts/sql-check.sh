#!/usr/bin/env bash
# Checks the SQL without running a service.
#
# - Migrations are numbered without gaps, each up has its down, and up, down, up leaves one schema.
# - Every statement in a .sql file of the crates is prepared against the migrated schema, so a
#   misspelt column fails here and not at run time; it names its tables with the schema, and asks for
#   columns by name.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

problems=0
problem() {
	say "$*"
	problems=$((problems + 1))
}

# --- without a database ---------------------------------------------------------------------------

number=0
for up in migrations/*.up.sql; do
	number=$((number + 1))
	case ${up##*/} in
	"$(printf %04d "$number")"_*) ;;
	*) problem "$up: the next migration's number is $(printf %04d "$number")" ;;
	esac
	[ -f "${up%.up.sql}.down.sql" ] || problem "$up: there is no ${up%.up.sql}.down.sql"
done
[ "$number" -gt 0 ] || die "there are no migrations"
for down in migrations/*.down.sql; do
	[ -f "${down%.down.sql}.up.sql" ] || problem "$down: there is no ${down%.down.sql}.up.sql"
done

statements() {
	# The test kit's are scripts of several statements, run by every test.
	find shared services -path '*/src/*' -name '*.sql' -not -path '*/target/*' \
		-not -path 'shared/testkit/*' | sort
}

# Comments may say anything.
code() { sed 's/--.*$//' "$1"; }

while read -r file; do
	# At the start of a line only: inside a subquery it does not reach the statement's result.
	if code "$file" | grep -qiE '^select[[:space:]]+([a-z]+\.)?\*'; then
		problem "$file: \`SELECT *\` breaks kept sessions when a column is added; name the columns"
	fi
done < <(statements)

# --- with one -------------------------------------------------------------------------------------

bin=$(scripts/setup.sh --pg-bin)
psql=$bin/psql
[ -x "$psql" ] || psql=psql
folder=$(mktemp -d /tmp/weir-sql.XXXXXX)
end() {
	scripts/cluster.sh stop "$folder" || true
	rm -rf "$folder"
}
trap end EXIT
scripts/cluster.sh start "$folder" >/dev/null
if [ -s "${bin%/usr/lib/*}/env" ]; then
	LD_LIBRARY_PATH=$(sed -n 's/^LD_LIBRARY_PATH=//p' "${bin%/usr/lib/*}/env")
	export LD_LIBRARY_PATH
fi
sql() { "$psql" -X -q -h "$folder" -U postgres -v ON_ERROR_STOP=1 "$@" weir; }

# As the runner does it: one transaction a file, unless the file says that it cannot be.
apply() {
	local single=--single-transaction
	if [ "$(head -n 1 "$1")" = '-- no-transaction' ]; then single=; fi
	sql ${single:+"$single"} -f "$1" >/dev/null
}
schema() {
	sql -tA -c "SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default
	            FROM information_schema.columns WHERE table_schema = 'weir' ORDER BY 1, 2, 3" \
		-c "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
	        WHERE connamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'weir') ORDER BY 1, 2" \
		-c "SELECT indexdef FROM pg_indexes WHERE schemaname = 'weir' ORDER BY 1"
}
all_up() { for file in migrations/*.up.sql; do apply "$file" || die "$file does not apply"; done; }
all_down() {
	local file
	while read -r file; do
		apply "$file" || die "$file does not apply"
	done < <(printf '%s\n' migrations/*.down.sql | sort -r)
}

all_up
schema >"$folder/first"
all_down
left=$(sql -tA -c "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('weir')")
[ "$left" = 0 ] || problem "migrations: $left relations are left after taking everything back"
all_up
schema >"$folder/second"
if ! diff "$folder/first" "$folder/second" >&2; then
	problem "migrations: up, down, up gives another schema than up (see above)"
fi

{
	printf '\\set VERBOSITY verbose\n'
	while read -r file; do
		# An empty search path: a table without its schema is then not found.
		printf '\\echo file %s\nPREPARE weir_check AS\n' "$file"
		code "$file" | sed -e 's/[[:space:]]*$//' | sed -e ':a' -e '/^\n*$/{$d;N;ba' -e '}' | sed '$s/;$//'
		printf ';\nDEALLOCATE weir_check;\n'
	done < <(statements)
} >"$folder/prepare.sql"
PGOPTIONS='-c search_path=' "$psql" -X -q -h "$folder" -U postgres -f "$folder/prepare.sql" weir \
	>"$folder/prepared" 2>&1 || true
awk '
	/^file / { file = $2; next }
	# What follows from the error above it.
	/prepared statement "weir_check" does not exist/ { next }
	# A parameter without a type: the driver sends it, `PREPARE` has to guess, and 42804 and 42P18
	# say that it guessed wrong.
	/ERROR: *(42804|42P18):/ { next }
	/ERROR:/ { sub(/.*ERROR: *[0-9A-Z]*: */, ""); print file ": " $0 }
' "$folder/prepared" >"$folder/refused"
while read -r line; do problem "$line"; done <"$folder/refused"
prepared=$(statements | wc -l)

[ "$problems" = 0 ] || die "$problems problems in the SQL; see above"
say "sql: $number migrations go up, down and up again; $prepared statements fit the schema"
