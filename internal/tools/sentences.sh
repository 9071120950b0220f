#!/bin/sh
# Lists the longest sentences of the pages for users, code left out. It fails if there are too many pages, or if
# README.md or SKILL.md is too long.
# The first argument is how many sentences to list.
set -e
pages=$(ls README.md docs/*.md)
awk -v most="${1:-10}" '
	function flush() {
		gsub(/`[^`]*`/, "code", text)
		gsub(/\]\([^)]*\)/, "]", text)
		n = split(text, parts, /[.?!:][)"*]* +/)
		for (i = 1; i <= n; i++) {
			words = split(parts[i], unused, /[ \t]+/)
			if (words > 25) {
				printf "%3d words  %s: %s\n", words, page, substr(parts[i], 1, 90) | "sort -rn | head -" most
			}
		}
		text = ""
	}
	FNR == 1 { flush(); page = FILENAME; fenced = 0 }
	/^ *```/ { flush(); fenced = !fenced; next }
	fenced { next }
	/^ *$/ || /^#/ || /^ *([-*]|[0-9]+\.) / { flush() }
	/^\|/ { flush(); gsub(/\|/, ". ") }
	/^#/ { next }
	{ text = text " " $0 }
	END { flush() }
' $pages
fail() {
	echo "$1"
	exit 1
}
[ "$(echo "$pages" | wc -l)" -le 25 ] || fail "there are more than 25 pages for users"
[ "$(wc -w <README.md)" -le 800 ] || fail "README.md has more than 800 words"
[ "$(wc -w <SKILL.md)" -le 1500 ] || fail "SKILL.md has more than 1,500 words"
