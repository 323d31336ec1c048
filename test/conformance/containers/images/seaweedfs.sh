#!/bin/sh
# As the entry point of the published image, as far as docker-compose.yml uses it.
set -eu
[ "$1" = server ] && shift
exec /usr/bin/weed -logtostderr=true server -dir=/data -master.volumePreallocate -master.volumeSizeLimitMB=1024 "$@"
