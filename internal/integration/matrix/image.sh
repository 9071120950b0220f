#!/bin/sh
# Imports a Docker image of Debian packages: image.sh RELEASE ENTRYPOINT NAME PACKAGE…
#
# The packages come from the mirror that this machine's apt uses. With the release experimental, PACKAGE and what is built
# from the same source come from there, and the rest from sid.
#
# It needs mmdebstrap and docker, and root or user namespaces.
set -eu

release=$1 entrypoint=$2 name=$3
shift 3

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

lines="deb $mirror $release main"
if [ "$release" = experimental ]; then
	release=sid
	lines="deb $mirror sid main
deb $mirror experimental main"
	printf 'Package: %s libpq5 postgresql-client-19 postgresql-common postgresql-client-common\nPin: release a=experimental\nPin-Priority: 990\n' "$*" >"$dir/pin"
else
	: >"$dir/pin"
fi

mmdebstrap --quiet --variant=minbase --include="$(echo "$*" | tr ' ' ,)" --aptopt='Acquire::Check-Valid-Until "false"' \
	--setup-hook='mkdir -p "$1/etc/apt/preferences.d"' \
	--setup-hook="cp $dir/pin \"\$1/etc/apt/preferences.d/pin\"" \
	--essential-hook='mkdir -p "$1/etc/postgresql-common/createcluster.d"' \
	--essential-hook='echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.d/image.conf"' \
	--customize-hook="install -m 755 $entrypoint \"\$1/usr/local/bin/entrypoint\"" \
	--customize-hook='chroot "$1" useradd --create-home --uid 1000 matrix' \
	--customize-hook='rm -rf "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale"' \
	"$release" "$dir/root.tar" "$lines"
docker import --change 'USER matrix' --change 'WORKDIR /home/matrix' --change 'ENTRYPOINT ["entrypoint"]' "$dir/root.tar" "$name" >/dev/null
