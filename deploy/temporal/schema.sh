#!/bin/sh
# Makes Temporal's two databases and brings them to this version. Runs in temporalio/admin-tools; idempotent.
set -eu
sql() {
  temporal-sql-tool --plugin postgres12 --ep "$POSTGRES_SEEDS" -p "$DB_PORT" -u "$POSTGRES_USER" --pw "$POSTGRES_PWD" "$@"
}
for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%:*}
  sql --db "$database" create
  sql --db "$database" setup-schema -v 0.0 || echo "$database has a schema already"
  sql --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/${pair#*:}/versioned"
done
