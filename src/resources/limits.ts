/** What bounds the caller: how often it may ask, and how large what it sends may be. */

import Type from 'typebox'
import { LIMITS } from '../core/limits.ts'
import { EVERYBODY } from '../core/policy.ts'
import { type BucketState, seconds } from '../platform/limiter/limit.ts'
import { aboutCaller, Input } from './kinds.ts'

const Rate = Type.Object({
  policy: Type.Enum(['key', 'subject', 'address', 'tenant'], { description: 'Whose requests are counted.' }),
  per_minute: Type.Integer(),
  limit: Type.Integer({ description: 'How many may come at once.' }),
  window_seconds: Type.Integer({ description: 'After which none that were used are missing any more.' }),
  remaining: Type.Integer({ description: 'After this request, which is counted like all others.' }),
})

/** By the names under which clients meet them: bytes, or numbers of what the name says. */
const SIZES = {
  url_bytes: LIMITS.urlBytesMax,
  header_bytes: LIMITS.headerBytesMax,
  body_bytes: LIMITS.bodyBytesMax,
  document_bytes: LIMITS.documentBytesMax,
  document_depth: LIMITS.documentDepthMax,
  document_keys: LIMITS.documentKeysMax,
  field_name_bytes: LIMITS.fieldNameBytesMax,
  filters: LIMITS.filtersMax,
  page_size: LIMITS.pageSizeMax,
  query_limit: LIMITS.queryLimitMax,
  batch_bytes: LIMITS.batchBytesMax,
  batch_ops: LIMITS.batchOpsMax,
  schema_bytes: LIMITS.schemaBytesMax,
  object_bytes: LIMITS.objectBytesMax,
  object_key_bytes: LIMITS.objectKeyBytesMax,
  event_bytes: LIMITS.eventBytesMax,
  flow_source_bytes: LIMITS.flowSourceBytesMax,
  flow_input_bytes: LIMITS.runInputBytesMax,
  function_source_bytes: LIMITS.functionSourceBytesMax,
  function_input_bytes: LIMITS.functionInputBytesMax,
  function_result_bytes: LIMITS.functionResultBytesMax,
  idempotency_key_chars: LIMITS.idempotencyKeyCharsMax,
} as const

const Sizes = Type.Object(
  Object.fromEntries(Object.keys(SIZES).map((name) => [name, Type.Integer()])) as Record<
    keyof typeof SIZES,
    Type.TInteger
  >,
)

export const getLimits = aboutCaller({
  name: 'limits.get',
  summary: 'Read how often you may ask, and how large what you send may be',
  roles: EVERYBODY,
  input: Input({}),
  output: Type.Object({ rates: Type.Array(Rate), sizes: Sizes }),
  http: { method: 'GET', path: '/v1/limits' },
  run: async ({ standings }) => ({ rates: standings.map(show), sizes: SIZES }),
})

const show = ({ limit, remaining }: BucketState) => ({
  policy: limit.counted,
  per_minute: limit.perMinute,
  limit: limit.burst,
  window_seconds: seconds(limit.capacityUs),
  remaining,
})
