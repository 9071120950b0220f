#!/bin/sh
# Builds an image with Debian's PostgreSQL that takes the variables of the official one, for machines that cannot pull
# that:
#
#	image.sh SUITE NAME [OPTION-OF-MMDEBSTRAP…]
#
# bullseye has PostgreSQL 13, bookworm 15, trixie 17 and forky 18. The packages come from this machine's own sources
# when these have the suite. A mirror that stands still needs --aptopt='Acquire::Check-Valid-Until "false"'.
#
# It needs root, mmdebstrap and Docker.
set -eu

if [ $# -lt 2 ]; then
	echo "usage: $0 SUITE NAME [OPTION-OF-MMDEBSTRAP…]" >&2
	exit 64
fi
suite=$1 name=$2
shift 2

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# As in the official image: the variables POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, the command `postgres` with
# its options, the account and the directory of the data.
cat >"$dir/entrypoint" <<'EOF'
#!/bin/sh
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
: "${POSTGRES_PASSWORD:?must be set}" "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	passwords=$(mktemp)
	echo "$POSTGRES_PASSWORD" >"$passwords"
	initdb --username="$POSTGRES_USER" --pwfile="$passwords" --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync
	rm "$passwords"
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
	if [ "$POSTGRES_DB" != postgres ]; then
		echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -j postgres
	fi
fi
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp
EOF

mmdebstrap --variant=minbase --include=postgresql --quiet \
	--essential-hook='mkdir -p "$1/etc/postgresql-common/createcluster.d"' \
	--essential-hook='echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.d/image.conf"' \
	--customize-hook="install -m 755 $dir/entrypoint \"\$1/usr/local/bin/entrypoint\"" \
	--customize-hook='install -d -m 700 "$1/var/lib/postgresql/data"' \
	--customize-hook='chroot "$1" chown postgres:postgres /var/lib/postgresql/data' \
	"$@" "$suite" "$dir/root.tar"

docker import \
	--change 'ENV PGDATA=/var/lib/postgresql/data' \
	--change 'USER postgres' \
	--change 'EXPOSE 5432' \
	--change 'ENTRYPOINT ["entrypoint"]' \
	--change 'CMD ["postgres"]' \
	"$dir/root.tar" "$name"
