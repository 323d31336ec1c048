#!/bin/sh
# The shared namespace and the search attributes that operators filter by (src/core/work.ts). Idempotent.
set -eu
temporal operator namespace describe --namespace default >/dev/null 2>&1 ||
  temporal operator namespace create --namespace default --retention 168h
for name in TenantId WorkspaceId FlowId FlowName FlowVersion ExecutionId RunStatus TriggerKind CorrelationKey ErrorType; do
  temporal operator search-attribute create --namespace default --name "$name" --type Keyword || true
done
