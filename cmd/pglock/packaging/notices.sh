#!/bin/sh
# Writes the licences and notices of all that is linked into programs besides pglock itself: of the modules, on every system
# that the program is for, and of Go. Most of them must be given to who gets the program.
#
#   notices.sh FILE "SYSTEM…" PACKAGE…
set -eu
file=$1
systems=$2
shift 2
mkdir -p "$(dirname "$file")"
modules=$(mktemp)
trap 'rm -f "$modules"' EXIT

for system in $systems; do # of each module a line with its name, a tab, and its folder
	GOOS=$system CGO_ENABLED=0 go list -deps \
		-f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}' "$@" >>"$modules"
done

# texts writes the legal texts in a folder, down to a depth. It fails if there is no licence.
texts() {
	rule=$(printf '%080d' 0 | tr 0 =)
	printf '\n%s\n%s\n%s\n\n' "$rule" "$1" "$rule"
	find "$2" -maxdepth "$3" -type f ! -name '*.go' \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' \
		-o -iname 'notice*' -o -iname 'patents*' -o -iname 'authors*' -o -iname 'unlicense*' \) | sort >"$modules.found"
	if ! grep -qiE '/(licen[cs]e|copying|unlicense)[^/]*$' "$modules.found"; then
		echo "notices: there is no licence of $1 in $2" >&2
		exit 1
	fi
	while read -r found; do
		tr -d '\r' <"$found"
		echo
	done <"$modules.found"
	rm "$modules.found"
}

{
	echo "This program contains the following software. Its own licence is in the file LICENSE."
	texts "Go, its standard library and runtime" "$(go env GOROOT)" 1
	sort -u "$modules" | while IFS="$(printf '\t')" read -r name folder; do
		[ -z "$name" ] || texts "$name" "$folder" 9
	done
} >"$file"
