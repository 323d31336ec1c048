/** Values that the client of Temporal sends as ready-made payloads: plaintext summaries, arguments with their purpose, search attributes. */

import {
  defaultPayloadConverter,
  defineSearchAttributeKey,
  RawValue,
  type SearchAttributePair,
  TypedSearchAttributes,
} from '@temporalio/common'
import { MARK, type Mark } from '../../core/payload-mark.ts'
import type { TenantRef } from '../../core/tenant.ts'
import { PURPOSE, type Purpose } from '../../core/work-input.ts'

const OPEN = Buffer.from('open' satisfies Mark)
const CHARS_MAX = 200

/**
 * A summary that operators read and that contains no data: the codec leaves it as it is.
 * @param text is cut to 200 characters
 */
export function plaintextSummary(text: string): string {
  return rawValue(text.slice(0, CHARS_MAX), MARK, OPEN) as unknown as string
}

/**
 * The one argument of a workflow, a signal or an update. The codec seals the purpose with the value; the interceptors in
 * workflows/door.ts compare it.
 */
export function withPurpose(purpose: Purpose, value: unknown): [unknown] {
  return [rawValue(value, PURPOSE, Buffer.from(purpose))]
}

function rawValue(value: unknown, name: string, text: Buffer): RawValue {
  const payload = defaultPayloadConverter.toPayload(value)
  return RawValue.fromPayload({ ...payload, metadata: { ...payload.metadata, [name]: text } })
}

/** Tenant and workspace, and the given ones. */
export function searchAttributesOf(
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
