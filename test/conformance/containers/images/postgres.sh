#!/bin/bash
# As the entry point of the published image, as far as docker-compose.yml uses it.
set -eu
if [ "${1:-}" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA"
  eval "initdb --username=postgres --pwfile=<(echo \"\$POSTGRES_PASSWORD\") -D \"\$PGDATA\" ${POSTGRES_INITDB_ARGS:-}"
  echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
  echo "unix_socket_directories = '/run/postgresql'" >> "$PGDATA/postgresql.conf"
  pg_ctl -D "$PGDATA" -o "-c listen_addresses='' $(printf '%q ' "${@:2}")" -w start
  psql -h /run/postgresql -U postgres -v ON_ERROR_STOP=1 -c "create database \"$POSTGRES_DB\""
  pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec "$@"
