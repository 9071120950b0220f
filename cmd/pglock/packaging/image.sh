#!/bin/sh
# Prepares a folder with the files of the image, for "docker build -f Dockerfile FOLDER". The certificates are those of
# this machine, if it has some, for sslrootcert=system. Time zones are in the command.
set -eu
folder=$1
repository=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$folder/licenses"
(cd "$repository/cmd/pglock" && CGO_ENABLED=0 go build -ldflags="-s -w" -o "$folder/pglock" .)
cp "$repository/LICENSE" "$folder/licenses/"
if [ -f "$repository/.tmp/package/THIRD_PARTY_NOTICES" ]; then
	cp "$repository/.tmp/package/THIRD_PARTY_NOTICES" "$folder/licenses/"
fi
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
	mkdir -p "$folder/etc/ssl/certs"
	cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
fi
