#!/bin/sh
# Makes sure that this machine has the programs that the tests and the demonstration run. As root on Debian and Ubuntu it
# installs what is missing, and says so; elsewhere, and if PGLOCK_NO_INSTALL is set, it says what to install and fails.
#
#	internal/prepare.sh [-optional] NEED…
#
# With -optional it does not fail for what it cannot install.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

# provides prints the Debian packages of a need.
provides() {
	case $1 in
	postgres) echo postgresql ;;
	pgbouncer) echo pgbouncer ;;
	redis) echo redis-server ;;
	redis-py) echo python3-redis ;;
	prometheus) echo prometheus ;;
	ps) echo procps ;;
	tmux) echo tmux ;;
	shells) echo bash bash-completion zsh fish ;;
	race) echo gcc libc6-dev ;;
	spin) echo spin ;;
	containers) echo docker.io mmdebstrap ;;
	languages) echo python3-psycopg2 nodejs npm default-jdk-headless libpostgresql-jdbc-java ruby-pg ;;
	*) echo "prepare: there is no need called $1" >&2; exit 2 ;;
	esac
}

# met says whether the machine has what a need is about. It looks where the tests do.
met() {
	case $1 in
	postgres)
		if [ -n "${PGLOCK_POSTGRES_BIN:-}" ]; then [ -x "$PGLOCK_POSTGRES_BIN/initdb" ]; return; fi
		has postgres && return
		for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin /opt/homebrew/opt/postgresql*/bin \
			/usr/local/opt/postgresql*/bin /Applications/Postgres.app/Contents/Versions/*/bin; do
			if [ -x "$dir/initdb" ]; then return; fi
		done
		return 1 ;;
	pgbouncer) has pgbouncer || [ -x /usr/sbin/pgbouncer ] ;;
	redis) has redis-server ;;
	redis-py) for python in /usr/bin/python3 python3; do "$python" -c 'import redis' 2>/dev/null && return; done; return 1 ;;
	prometheus) has prometheus && has promtool ;;
	shells)
		has bash && has zsh && has fish && { [ -e /usr/share/bash-completion/bash_completion ] ||
			[ -e /opt/homebrew/share/bash-completion/bash_completion ] ||
			[ -e /usr/local/share/bash-completion/bash_completion ]; } ;;
	race) has "$(go env CC | cut -d' ' -f1)" ;;
	containers) has docker && has dockerd && has mmdebstrap ;;
	languages)
		has npm && has javac && [ -e /usr/share/java/postgresql.jar ] &&
			/usr/bin/python3 -c 'import psycopg2' 2>/dev/null && ruby -e "require 'pg'" 2>/dev/null ;;
	*) has "$1" ;;
	esac
}

# debian installs packages. Only the programs are needed: while the two files exist, Debian's packages create no cluster of
# PostgreSQL and start no services. Files of these names that the machine has are kept.
debian() {
	cluster=/etc/postgresql-common/createcluster.d/pglock.conf policy=/usr/sbin/policy-rc.d ours=
	trap 'rm -f $ours' EXIT
	if [ ! -e "$cluster" ]; then
		mkdir -p "${cluster%/*}"
		ours="$ours $cluster"
		echo 'create_main_cluster = false' >"$cluster"
	fi
	if [ ! -e "$policy" ]; then
		ours="$ours $policy"
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	apt-get --quiet=2 update
	DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 install --yes --no-install-recommends "$@" >/dev/null
}

lacking() {
	for need; do
		met "$need" || provides "$need"
	done
}

optional=false
if [ "${1:-}" = -optional ]; then optional=true; shift; fi
for need; do provides "$need" >/dev/null; done
missing=$(lacking "$@" | tr '\n' ' ')
if [ -z "$missing" ]; then exit; fi
if [ "$(id -u)" = 0 ] && has apt-get && [ -z "${PGLOCK_NO_INSTALL:-}" ]; then
	echo "prepare: installing with apt-get: $missing(PGLOCK_NO_INSTALL=1 would refuse)"
	# shellcheck disable=SC2086 # these are several words
	debian $missing
	missing=$(lacking "$@" | tr '\n' ' ')
	if [ -z "$missing" ]; then exit; fi
	echo "prepare: it is installed, and yet not found: $missing" >&2
	exit 1
fi
if $optional; then exit; fi
echo "prepare: install what the Debian packages have: $missing${PGLOCK_NO_INSTALL:+
(PGLOCK_NO_INSTALL is set, so nothing was installed)}" >&2
exit 1
