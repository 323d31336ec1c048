/** Starts of workflows, and their values as the client of Temporal sends them: summaries, arguments, search attributes. */

import {
  defaultPayloadConverter,
  defineSearchAttributeKey,
  RawValue,
  type SearchAttributePair,
  TypedSearchAttributes,
} from '@temporalio/common'
import type { TenantRef } from '../../core/tenant.ts'
import { type Trace, traceIdOf, traceText } from '../../core/trace.ts'
import {
  PAYLOAD_MARK,
  type PayloadMark,
  PURPOSE,
  type Purpose,
  type QUEUES,
  type SearchAttributes,
  TRACE,
} from '../../core/work.ts'

export interface Start {
  /** A definition of src/workflows/index.ts. */
  readonly definition: string
  /** The workflow type, which operators read: the name of the flow or function; the definition by default. */
  readonly type?: string
  readonly queue: (typeof QUEUES)[keyof typeof QUEUES]
  /** Third part of the workflow id: a flow, a function, or the name of a tenant job. */
  readonly subject: string
  /** Fourth part: the execution's UUID. */
  readonly uuid: string
  readonly input: unknown
  /** One line for operators in the Temporal UI; not encrypted. */
  readonly summary: string
  /** Search attributes besides tenant and workspace. */
  readonly attributes?: SearchAttributes
  /** Terminates the workflow if it runs longer. */
  readonly timeoutMs?: number
  readonly delayMs?: number
}

const CLEARTEXT = Buffer.from('cleartext' satisfies PayloadMark)
const CHARS_MAX = 200

/**
 * A summary for operators, without data, that the codec does not encrypt.
 * @param text is cut to 200 characters
 */
export function plaintextSummary(text: string): string {
  return rawValue(text.slice(0, CHARS_MAX), { [PAYLOAD_MARK]: CLEARTEXT }) as unknown as string
}

/**
 * The single argument of a workflow, a signal or an update. The codec encrypts purpose and trace with the value; the interceptors
 * in workflows/tenant-interceptor.ts compare the purpose, and pass the trace on.
 */
export function withPurpose(purpose: Purpose, value: unknown, trace?: Trace): [unknown] {
  const traced = trace === undefined ? {} : { [TRACE]: Buffer.from(traceText(trace)) }
  return [rawValue(value, { [PURPOSE]: Buffer.from(purpose), ...traced })]
}

function rawValue(value: unknown, marks: Readonly<Record<string, Buffer>>): RawValue {
  const payload = defaultPayloadConverter.toPayload(value)
  return RawValue.fromPayload({ ...payload, metadata: { ...payload.metadata, ...marks } })
}

/** Tenant and workspace, the given ones, and the ids of the trace. */
export function searchAttributesOf(
  ref: TenantRef,
  more: SearchAttributes = {},
  trace?: Trace,
): TypedSearchAttributes {
  const of: SearchAttributes = { TenantId: ref.tenantId, WorkspaceId: ref.workspaceId, ...more }
  const pairs: SearchAttributePair[] = Object.entries(of).map(([name, value]) => ({
    key: defineSearchAttributeKey(name, 'KEYWORD'),
    value,
  }))
  const ids = trace === undefined ? [] : [{ key: REQUEST_IDS, value: [trace.requestId, traceIdOf(trace)] }]
  return new TypedSearchAttributes([...pairs, ...ids])
}

const REQUEST_IDS = defineSearchAttributeKey('RequestIds', 'KEYWORD_LIST')
