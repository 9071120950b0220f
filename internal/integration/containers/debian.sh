#!/bin/sh
# Makes a PostgreSQL of a chosen major version from Debian's packages, for machines that cannot pull an image:
#
#	debian.sh image VERSION NAME          imports a Docker image that takes the variables of the official one
#	debian.sh programs VERSION DIRECTORY  extracts the programs, to run on this machine from any directory
#
# The versions are those of Debian's releases: 13, 15, 17 and 18. The packages come from the mirror that this machine's
# apt uses. It takes half a minute.
#
# It needs mmdebstrap, and root or user namespaces; Docker for an image, patchelf for programs.
set -eu

usage() {
	echo "usage: $0 image VERSION NAME | programs VERSION DIRECTORY" >&2
	exit 64
}

[ $# -eq 3 ] || usage
what=$1 version=$2 target=$3

case $version in
13) suite=bullseye ;;
15) suite=bookworm ;;
17) suite=trixie ;;
18) suite=forky ;;
*)
	echo "$0: no release of Debian that is known here has PostgreSQL $version; 13, 15, 17 and 18 can be had" >&2
	exit 1
	;;
esac

need() {
	for program; do
		command -v "$program" >/dev/null || {
			echo "$0: $program is missing (apt-get install $program)" >&2
			exit 1
		}
	done
}

# debian makes a system of the suite from the packages of PostgreSQL. Its mirror may stand still at some date.
debian() {
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1)
	[ -n "$mirror" ] || {
		echo "$0: apt knows no mirror of Debian on this machine (apt-get update)" >&2
		exit 1
	}
	mmdebstrap --quiet --include="postgresql-$version" --aptopt='Acquire::Check-Valid-Until "false"' "$@" \
		"$suite" "$system" "deb $mirror $suite main"
}

image() {
	need mmdebstrap docker
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	system=$dir/root.tar

	# As in the official image: the variables POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, the command `postgres`
	# with its options, the account and the directory of the data.
	cat >"$dir/entrypoint" <<-'END'
		#!/bin/sh
		set -eu
		PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
		: "${POSTGRES_PASSWORD:?must be set}" "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}"
		if [ ! -s "$PGDATA/PG_VERSION" ]; then
			passwords=$(mktemp)
			echo "$POSTGRES_PASSWORD" >"$passwords"
			initdb --username="$POSTGRES_USER" --pwfile="$passwords" --auth=scram-sha-256 \
				--encoding=UTF8 --locale=C --no-sync
			rm "$passwords"
			echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
			if [ "$POSTGRES_DB" != postgres ]; then
				echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -j postgres
			fi
		fi
		exec "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp
	END

	debian --variant=minbase \
		--essential-hook='mkdir -p "$1/etc/postgresql-common/createcluster.d"' \
		--essential-hook='echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.d/image.conf"' \
		--customize-hook="install -m 755 $dir/entrypoint \"\$1/usr/local/bin/entrypoint\"" \
		--customize-hook='install -d -m 700 "$1/var/lib/postgresql/data"' \
		--customize-hook='chroot "$1" chown postgres:postgres /var/lib/postgresql/data'

	docker import \
		--change 'ENV PGDATA=/var/lib/postgresql/data' \
		--change 'USER postgres' \
		--change 'EXPOSE 5432' \
		--change 'ENTRYPOINT ["entrypoint"]' \
		--change 'CMD ["postgres"]' \
		"$system" "$target" >/dev/null
}

# programs extracts the packages, and has each program use the loader and the libraries of its own release.
programs() {
	need mmdebstrap patchelf
	if [ -e "$target" ]; then
		echo "$0: $target exists" >&2
		exit 1
	fi
	system=$target.new
	rm -rf "$system"
	debian --variant=extract
	chmod 755 "$system"

	loader=$(cd "$system" && find . -name 'ld-linux*.so.*' | head -n 1)
	libraries=$(cd "$system" && find . -name 'libpq.so.*' -printf '%h\n' | head -n 1)
	core=$(cd "$system" && find . -name 'libc.so.*' -printf '%h\n' | head -n 1)
	for program in "$system/usr/lib/postgresql/$version/bin"/*; do
		if head -c 4 "$program" | grep -q ELF; then
			patchelf --force-rpath --set-rpath "$target/${libraries#./}:$target/${core#./}" \
				--set-interpreter "$target/${loader#./}" "$program"
		fi
	done
	# A library with a RUNPATH takes its own libraries from this machine, not from where the program's are.
	find "$system" -name 'libLLVM*.so*' -type f -exec patchelf --remove-rpath {} +
	mv "$system" "$target"
	"$target/usr/lib/postgresql/$version/bin/postgres" --version
}

case $what in
image) image ;;
programs)
	case $target in
	/*) ;;
	*) target=$PWD/$target ;;
	esac
	programs
	;;
*) usage ;;
esac
