#!/usr/bin/env bash
# Checks the Helm chart: lint, a render that equals the kept one, manifests that fit Kubernetes'
# schemas, and values that are misspelt are refused.
#
#   scripts/chart-check.sh --update   writes the kept render anew, to be read in the diff

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

chart=helm/weir
golden=$chart/tests/golden.yaml

status=0
helm=$(scripts/tool.sh helm) || status=$?
if [ "$status" = 3 ]; then
	skip "the Helm chart" "helm cannot be had on this machine"
	exit 0
fi
[ "$status" = 0 ] || exit "$status"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of the person's own helm may have a say.
export HELM_CACHE_HOME=$work/cache HELM_CONFIG_HOME=$work/config HELM_DATA_HOME=$work/data
render() { "$helm" template weir "$chart" --namespace weir "$@"; }

"$helm" lint --strict --quiet "$chart"
render >"$work/golden.yaml"
if [ "${1:-}" = --update ]; then
	cp "$work/golden.yaml" "$golden"
	say "chart: wrote $golden"
elif ! diff -u "$golden" "$work/golden.yaml" >&2; then
	die "the chart renders otherwise than $golden (see above); if that is meant: scripts/chart-check.sh --update"
fi

# With everything that is off by default.
render --set imagePullSecrets[0].name=pull --set environment=Development --set log=debug \
	--set serviceAccount.name=own --set-string serviceAccount.annotations.a=b \
	--set gateway.webhookSecret=hooks --set gateway.service.type=LoadBalancer \
	--set-string gateway.service.annotations.a=b --set routing.settings.POOL=20 \
	--set-string nodeSelector.disk=fast --set tolerations[0].operator=Exists \
	--set-json 'affinity={"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"kubernetes.io/hostname"}}]}}' \
	>"$work/full.yaml"
render --set migrate.enabled=false --set serviceAccount.create=false >"$work/least.yaml"
# A long release name must not make names that Kubernetes refuses.
"$helm" template "$(printf 'r%.0s' $(seq 53))" "$chart" >"$work/long.yaml"
if awk '/^  name: / && length($2) > 63 { bad = 1 } END { exit !bad }' "$work/long.yaml"; then
	die "a long release name gives names of more than 63 characters"
fi

refused() {
	if render --set "$1" >/dev/null 2>"$work/refusal"; then
		die "the chart accepts the wrong value $1"
	fi
	grep -qi 'schema\|additional propert' "$work/refusal" || {
		cat "$work/refusal" >&2
		die "the chart refuses $1, but not for its schema"
	}
}
refused replicas=3
refused routing.replica=3
refused routing.replicas=three
refused gateway.service.prot=80
refused environment=development
refused database.url=postgres://here
refused gateway.settings.lower=1

status=0
validate=$(scripts/tool.sh kubernetes-validate) || status=$?
if [ "$status" = 3 ]; then
	skip "the chart's manifests against Kubernetes' schemas" "kubernetes-validate cannot be had"
	exit 0
fi
[ "$status" = 0 ] || exit "$status"
# The oldest release that the chart allows, and a recent one.
for version in 1.27 1.35; do
	quietly "$validate" -k "$version" --strict "$work"/{golden,full,least,long}.yaml
done
say "chart: lint is clean, renders as kept, refuses misspelt values, fits Kubernetes 1.27 and 1.35"
