#!/usr/bin/env bash
# The modules of this repository, and releases of them:
#
#   release.sh tidy               tidies all go.mod files
#   release.sh check              fails if one is not tidy, lacks LICENSE, or imports what its users could not have
#   release.sh changes APIDIFF COMMIT  lists what has changed in the API since a tag or commit, by type
#   release.sh tag VERSION        tags a commit that requires the modules of each other in that version
#   release.sh rehearse VERSION   does that in a copy, and uses each module from there, with KEEP=FOLDER in that folder
#
# A published module has a replace directive for each of ours that it requires, so that a checkout uses its own folders.
# The tagged commit has none, since go install refuses them. It is not on main, which keeps them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD path=github.com/pglock-toolkit/pglock
export GOWORK=off

modules() { git ls-files -co --exclude-standard go.mod '*/go.mod' | xargs -n1 dirname | sort; }
published() { modules | grep -vE '^(bench|examples|internal)(/|$)'; }
path_of() { echo "$path${1:+/$1}" | sed 's,/\.$,,'; }
required() { (cd "$1" && go mod edit -json) | grep -oE "\"$path[^\"]*\"" | tr -d '"' | sort -u | grep -vx "$(path_of "$1")" || true; }

tidy() {
	for dir in $(modules); do
		(cd "$dir" && go mod tidy "$@") || { echo "$dir/go.mod is not tidy: make tidy" >&2; return 1; }
	done
}

check() {
	tidy -diff
	for dir in $(published); do
		cmp -s LICENSE "$dir/LICENSE" || { echo "$dir has no copy of LICENSE" >&2; return 1; }
	done
	[ -z "$(required .)" ] || { echo "the root's module requires another one of ours" >&2; return 1; }
	# Programs may mix the versions of our modules. A release of a command requires the same version of the root.
	for dir in $(published | grep -v -e '^\.$' -e '^cmd/'); do
		foreign=$(cd "$dir" && go list -f '{{join .Imports "\n"}}' ./... | grep "^$path/" | grep -E '/internal(/|$)' | grep -v "^$(path_of "$dir")/" || true)
		[ -z "$foreign" ] || { echo "$dir imports $foreign: versions of the two modules may be mixed" >&2; return 1; }
	done
}

# The packages that others may import.
importable() { go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' "$path/..." | grep -vE '/(internal|examples|bench)(/|$)'; }

# The workspace has all modules of a checkout, since a tagged commit requires releases of them.
changes() {
	local package
	old=$(mktemp -d) && trap 'git worktree remove --force "$old"' EXIT
	git worktree add --quiet --detach "$old" "$2"
	(export GOWORK=$old/go.work && cd "$old" && for package in $(importable); do
		mkdir -p "$old/api/$package" && "$1" -w "$old/api/$package/list" "$package"
	done)
	export GOWORK=$root/go.work
	for package in $(importable); do
		[ -f "$old/api/$package/list" ] || { echo "$package: new" && continue; }
		"$1" "$old/api/$package/list" "$package" | sed "s,^[IC].*compatible changes:,$package: &," && rm "$old/api/$package/list"
	done
	(cd "$old/api" && find . -name list | sed 's,^\./\(.*\)/list,\1: removed,')
}

tag() {
	[[ $1 =~ ^v[01]\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "$1 is not a version such as v0.1.0" >&2; return 1; }
	[ -z "$(git status --porcelain)" ] || { echo "commit or remove what git status shows first" >&2; return 1; }
	local number=${1#v} from
	number=${number%%-*}
	grep -qF "## [$number] - 20" CHANGELOG.md || { echo "CHANGELOG.md has no heading \"## [$number] - YEAR-MONTH-DAY\"" >&2; return 1; }
	from=$(git symbolic-ref --quiet --short HEAD || git rev-parse HEAD) # a check of a pull request is on no branch
	git checkout --quiet --detach
	for dir in $(published); do
		for other in $(required "$dir"); do
			(cd "$dir" && go mod edit -dropreplace="$other" -require="$other@$1")
		done
	done
	git commit --quiet --all --allow-empty --message "Release $1"
	for dir in $(published); do
		git tag "$(echo "$dir/$1" | sed 's,^\./,,')"
	done
	git checkout --quiet "$from"
}

# What a stranger does with a module: get it, build a program that uses it, and run that.
use() {
	local dir=$1 version=$2 module program
	module=$(path_of "$dir") program=$home/programs/$(echo "$dir" | tr / - | sed 's,^\.$,root,')
	mkdir -p "$program" && cp "$root/internal/tools/strangers/$(basename "$program").go.txt" "$program/main.go"
	(cd "$program" && go mod init example.com/stranger && if [[ $dir == cmd/* ]]; then
		go get -tool "$module@$version" && go mod tidy && go tool "$(basename "$dir")" --help
	else
		go get "$module@$version" && go mod tidy && go vet . && go run .
	fi) >"$program/log" 2>&1 || { cat "$program/log" >&2; echo "a stranger cannot use $module $version" >&2; return 1; }
	printf '%-60s got and used\n' "$module"
}

# A program that imports only package pglock compiles nothing but pgx and what that needs, and has few modules more in its
# graph: golang-migrate, goleak, and go-redis with three that it needs.
measure() {
	local ours pgx
	cd "$home/programs/root"
	ours=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' . | sort -u |
		grep -vE "^($path|github.com/jackc/(pgx/v5|pgpassfile|pgservicefile|puddle/v2)|golang.org/x/(text|sync))$" || true)
	[ -z "$ours" ] || { echo "package pglock imports $ours" >&2; return 1; }
	graph() { go mod graph | tr ' ' '\n' | grep @ | grep -vE "^(go|toolchain|$path)@" | sed 's/@.*//' | sort -u; }
	ours=$(graph | wc -l)
	mkdir -p ../pgx && cd ../pgx && printf 'package main\n\nimport _ "github.com/jackc/pgx/v5/pgxpool"\n\nfunc main() {}\n' >main.go
	go mod init example.com/stranger 2>/dev/null
	go get "github.com/jackc/pgx/v5@$(cd ../root && go list -m -f '{{.Version}}' github.com/jackc/pgx/v5)" 2>/dev/null
	go mod tidy && pgx=$(graph | wc -l)
	echo "a program that imports only package pglock has $ours other modules in its graph, one with only pgx $pgx"
	[ "$ours" -le $((pgx + 6)) ] || { echo "at most 6 more are allowed" >&2; return 1; }
}

rehearse() {
	local version=$1 scratch cache proxy
	[ -z "$(git status --porcelain)" ] || echo "what is not committed is left out"
	scratch=${KEEP:-$(mktemp -d)} && mkdir -p "$scratch"
	git clone --quiet --no-tags --depth=1 "file://$root" "$scratch/source"
	(cd "$scratch/source" && git config user.name rehearsal && git config user.email rehearsal@example.com &&
		internal/tools/release.sh tag "$version")
	home=$scratch/stranger cache=$(go env GOMODCACHE) proxy=$(go env GOPROXY)
	mkdir -p "$home"
	# Git finds our modules in the copy. The others come from this machine's cache if they are there.
	export GOCACHE="$(go env GOCACHE)" HOME=$home GOPATH=$home/go GOBIN=$home/bin GOMODCACHE=$home/modules GOFLAGS="-trimpath -modcacherw"
	export GOPROXY="file://$cache/cache/download,$proxy" GONOPROXY="$path,$path/*" GONOSUMDB="$path,$path/*" GOSUMDB=off CGO_ENABLED=0
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$scratch/source.insteadOf" GIT_CONFIG_VALUE_0="https://$path"
	for dir in $(published); do
		use "$dir" "$version"
	done
	for command in $(git ls-files ':(glob)cmd/*/main.go' | xargs -n1 dirname); do
		go install "$path/$command@$version" && printf '%-60s installed\n' "$path/$command"
	done
	"$home/bin/pglock" version | grep -F "$version"
	(measure)
	if [ -z "${KEEP:-}" ]; then
		rm -rf "$scratch"
	else
		printf 'Use the release with:\n'
		printf 'export %s\n' "GONOPROXY='$GONOPROXY'" "GONOSUMDB='$GONOSUMDB'" GIT_CONFIG_COUNT=1 \
			"GIT_CONFIG_KEY_0='$GIT_CONFIG_KEY_0'" "GIT_CONFIG_VALUE_0='$GIT_CONFIG_VALUE_0'"
	fi
}

case "${1:-} $#" in
"tidy 1" | "check 1") "$1" ;;
"tag 2" | "rehearse 2") "$1" "$2" ;;
"changes 3") "$@" ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" && exit 2 ;;
esac
