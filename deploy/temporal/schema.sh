#!/bin/sh
# Brings Temporal's two databases to this version. Runs in temporalio/admin-tools, with SQL_* for its tool; idempotent.
set -eu
for pair in temporal:temporal temporal_visibility:visibility; do
  export SQL_DATABASE="${pair%:*}"
  temporal-sql-tool setup-schema -v 0.0 || echo "$SQL_DATABASE has a schema already"
  temporal-sql-tool update-schema -d "/etc/temporal/schema/postgresql/v12/${pair#*:}/versioned"
done
