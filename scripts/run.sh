#!/usr/bin/env bash
# `make run`: Weir on http://localhost:7070 until Ctrl-C, with the first calls to try. Data stay in
# .weir (or $WEIR_DATA) for the next time. PROCESSES=5 runs each service in a process of its own.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/serve.sh
. "$ROOT/scripts/serve.sh"

data=${WEIR_DATA:-$ROOT/.weir}
port=${PORT:-7070}
port_is_free "$port" || die "port $port is taken; choose another: make run PORT=7080"
trap serve_stop EXIT
trap 'exit 0' INT TERM
say "starting; the first time takes some seconds"
serve_start "$data" "$port"

cat <<TEXT

Weir is ready on $WEIR_URL, in development: no password, tenant demo. Logs are in $data.
Try, in another terminal:

  export WEIR_URL=$WEIR_URL PATH=$BIN:\$PATH
  weir replay demo/samples.jsonl                       # signed GitHub webhooks
  weir events list                                     # what became of them
  weir work list
  weir worker --binding triage -- cat                  # runs a program on each Work
  weir trace --scope github --type issues.opened --data '{}'

  grpcurl -plaintext localhost:$port list
  curl -H 'ce-id: 1' -H 'ce-source: me' -H 'ce-type: issues.opened' -H 'ce-specversion: 1.0' \\
       -H 'x-weir-tenant: demo' -d '{}' '$WEIR_URL/v1/events?scope=github'

Ctrl-C stops it.
TEXT
# Ends when a process ends by itself, too: half a Weir is none.
wait -n "${SERVED[@]}" || true
die "a process of Weir ended; see the logs in $data"
