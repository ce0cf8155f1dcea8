# shellcheck shell=bash
# Starts and stops Weir for a script: in one process, or each service in its own. Sourced after
# lib.sh, never run.
#
#   serve_start FOLDER [PORT]   logs and data go to FOLDER; without PORT a free one is taken.
#                               PROCESSES=5 starts five; sets WEIR_URL
#   serve_stop                  ends what was started, in order

BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug
HOST=127.0.0.1
# Health and metrics are answered on a port of their own, this much higher.
HEALTH_OFFSET=2000

SERVED=()
SERVED_CLUSTER=

port_is_free() { ! (exec 3<>"/dev/tcp/$HOST/$1") 2>/dev/null; }

# A port that is free together with its health port.
free_port() {
	local port
	for _ in $(seq 100); do
		port=$((20000 + RANDOM % 10000))
		if port_is_free "$port" && port_is_free $((port + HEALTH_OFFSET)); then
			printf '%s' "$port"
			return
		fi
	done
	die "found no free port"
}

# http_status PORT PATH: a GET without curl, which a small machine may lack.
http_status() {
	(
		exec 3<>"/dev/tcp/$HOST/$1" || exit 1
		printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$2" "$HOST" >&3
		read -r -t 5 _ status _ <&3 || exit 1
		printf '%s' "$status"
	) 2>/dev/null || true
}

# wait_ready NAME PORT PID LOG: until it answers that it is ready, or has ended.
wait_ready() {
	local deadline=$((SECONDS + 90))
	while [ "$(http_status "$2" /health/ready)" != 200 ]; do
		if ! kill -0 "$3" 2>/dev/null; then
			tail -n 20 "$4" >&2
			die "$1 ended before it was ready; its last words are above"
		fi
		if [ "$SECONDS" -ge "$deadline" ]; then
			tail -n 20 "$4" >&2
			die "$1 was not ready within 90 s; its last words are above"
		fi
		sleep 0.2
	done
}

# start_one LOG COMMAND..: in the background, in no terminal's reach but ours.
start_one() {
	local log=$1
	shift
	"$@" >"$log" 2>&1 </dev/null &
	SERVED+=("$!")
}

serve_start() {
	local folder=$1 port=${2:-}
	mkdir -p "$folder"
	export WEIR_ENVIRONMENT=Development
	# What the person's shell says about another Weir must not lead the script there.
	unset WEIR_TENANT WEIR_ACTOR WEIR_TOKEN WEIR_WEBHOOK_SECRET_DEMO_MAIN
	if [ "${PROCESSES:-1}" = 5 ]; then
		serve_five "$folder" "$port"
	else
		serve_one "$folder" "$port"
	fi
}

serve_one() {
	local folder=$1 port=${2:-$(free_port)}
	start_one "$folder/weir.log" "$BIN/weir" dev --listen "$HOST:$port" --data-dir "$folder/data"
	export WEIR_URL=http://$HOST:$port
	wait_ready "weir dev" "$port" "${SERVED[0]}" "$folder/weir.log"
}

# Ports are the documented ones, so that the calls of the documentation work.
serve_five() {
	local folder=$1 port name index=0
	declare -A ports=([gateway]=${2:-7070} [routing]=7071 [lifecycle]=7072 [causal]=7073 [migration]=7074)
	for name in "${!ports[@]}"; do
		port=${ports[$name]}
		if ! port_is_free "$port" || ! port_is_free $((port + HEALTH_OFFSET)); then
			die "port $port or $((port + HEALTH_OFFSET)) is taken; five processes use 7070 to 7074 and 9070 to 9074"
		fi
	done
	if [ -z "${DATABASE_URL:-}" ]; then
		SERVED_CLUSTER=$(mktemp -d /tmp/weir-pg.XXXXXX)
		DATABASE_URL=$("$ROOT/scripts/cluster.sh" start "$SERVED_CLUSTER")
		export DATABASE_URL
	fi
	export DATABASE_DIRECT_URL=${DATABASE_DIRECT_URL:-$DATABASE_URL}
	WEIR_INTERNAL_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	export WEIR_INTERNAL_TOKEN
	"$BIN/weir" migrate up >"$folder/migrate.log" 2>&1 || {
		tail -n 20 "$folder/migrate.log" >&2
		die "the schema could not be brought up to date"
	}

	local routing=http://$HOST:${ports[routing]} lifecycle=http://$HOST:${ports[lifecycle]}
	export WEIR_CAUSAL__ROUTING=$routing
	export WEIR_GATEWAY__ROUTING=$routing
	export WEIR_GATEWAY__LIFECYCLE=$lifecycle
	export WEIR_GATEWAY__CAUSAL=http://$HOST:${ports[causal]}
	export WEIR_GATEWAY__MIGRATION=http://$HOST:${ports[migration]}
	for name in migration routing lifecycle causal gateway; do
		port=${ports[$name]}
		start_one "$folder/$name.log" env \
			"WEIR_${name^^}__LISTEN=$HOST:$port" \
			"WEIR_${name^^}__HEALTH_LISTEN=$HOST:$((port + HEALTH_OFFSET))" \
			"$BIN/weir-$name"
	done
	for name in migration routing lifecycle causal gateway; do
		wait_ready "weir-$name" $((${ports[$name]} + HEALTH_OFFSET)) "${SERVED[$index]}" "$folder/$name.log"
		index=$((index + 1))
	done
	export WEIR_URL=http://$HOST:${ports[gateway]}
	# `weir dev` brings a first tenant along; services that run alone are told.
	"$BIN/weir" config apply "$ROOT/services/routing/src/tenant/demo.yaml" >"$folder/config.log" 2>&1 || {
		tail -n 20 "$folder/config.log" >&2
		die "the configuration of tenant demo was refused"
	}
}

# The gateway was started last and ends first: nothing new comes in while the others finish.
serve_stop() {
	local index
	for ((index = ${#SERVED[@]} - 1; index >= 0; index--)); do
		kill -TERM "${SERVED[$index]}" 2>/dev/null || true
		wait "${SERVED[$index]}" 2>/dev/null || true
	done
	SERVED=()
	if [ -n "$SERVED_CLUSTER" ]; then
		"$ROOT/scripts/cluster.sh" stop "$SERVED_CLUSTER" || true
		rm -rf "$SERVED_CLUSTER"
		SERVED_CLUSTER=
	fi
}
