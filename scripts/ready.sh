#!/usr/bin/env bash
# scripts/ready.sh PORT: whether the service with this health port is ready. For containers, whose
# image holds no HTTP client.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/$1"
printf 'GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3
[ "$status" = 200 ]
