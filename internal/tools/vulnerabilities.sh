#!/usr/bin/env bash
# Looks in each module for known vulnerabilities that its code calls, of Go and of what it requires:
#
#   vulnerabilities.sh GOVULNCHECK
#
# The database is that of the Go project, or of the URL in VULNDB. Where it cannot be reached, that is said, and is no
# failure. Module golang.org/x/vulndb makes one: build its cmd/indexdb, and run it with -vulns data/osv -out FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
database=${VULNDB:-https://vuln.go.dev} found=0

for module in $(git ls-files -co --exclude-standard go.mod '*/go.mod' | xargs -n1 dirname | sort); do
	[ "$module" != internal/tools ] || continue # it has no code, and golangci-lint and sqlc look at themselves
	code=0
	report=$(cd "$module" && CGO_ENABLED=0 "$1" -db="$database" ./... 2>&1) || code=$?
	case $code in
	0) echo "$module: no known vulnerabilities" ;;
	3) echo "$module: $(grep -E '^Vuln|^    (Found|Fixed) in:' <<<"$report")" >&2 && found=1 ;;
	*)
		grep -qE 'dial tcp|no such host|Client.Timeout|connection refused' <<<"$report" || { echo "$module: $report" >&2 && exit 1; }
		echo "known vulnerabilities: not checked, since $database cannot be reached"
		exit 0
		;;
	esac
done
exit $found
