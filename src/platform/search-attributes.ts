/** What operators find workflows and schedules by in the Temporal UI. */

import { defineSearchAttributeKey, type SearchAttributePair, TypedSearchAttributes } from '@temporalio/common'
import type { TenantRef } from '../core/tenant.ts'

/** Tenant and workspace, and what is more. */
export function attributesOf(
  ref: TenantRef,
  more: Readonly<Record<string, string>> = {},
): TypedSearchAttributes {
  const of = { TenantId: ref.tenantId, WorkspaceId: ref.workspaceId, ...more }
  const pairs: SearchAttributePair[] = Object.entries(of).map(([name, value]) => ({
    key: defineSearchAttributeKey(name, 'KEYWORD'),
    value,
  }))
  return new TypedSearchAttributes(pairs)
}
