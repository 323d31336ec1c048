#!/bin/sh
# The shared namespace and the search attributes that operators filter by (src/core/work.ts). Idempotent.
set -eu
temporal operator namespace describe --namespace default >/dev/null 2>&1 ||
  temporal operator namespace create --namespace default --retention 168h
for attribute in TenantId=Keyword WorkspaceId=Keyword FlowId=Keyword FlowName=Keyword FlowVersion=Keyword ExecutionId=Keyword RunStatus=Keyword TriggerKind=Keyword CorrelationKey=Keyword ErrorType=Keyword RequestIds=KeywordList; do
  temporal operator search-attribute create --namespace default --name "${attribute%=*}" --type "${attribute#*=}" || true
done
