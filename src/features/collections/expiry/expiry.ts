/** Documents that expire: what a declaration says of it, and the filters that find them. */

import Type, { type Static } from 'typebox'
import { boundedMs, Duration, durationMs } from '../../../core/units.ts'
import { fieldProblem } from '../../operation-helpers.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Filter, Test } from '../query/filter.ts'
import { canonicalOf, type Format } from '../schemas/canonical-text.ts'

export const Expiry = Type.Object(
  {
    field: Type.String({
      description: 'Declared field of type string with the format `date-time`, or `_created_at`.',
    }),
    after: Type.Optional(
      Duration(
        'Time from the value of the field until the document expires, from 1s to 36500d. Default: none.',
      ),
    ),
  },
  {
    additionalProperties: false,
    description:
      'Time at which documents expire: `{"field": "expires_at"}`, or `{"field": "_created_at", "after": "30d"}`. Such a document is not found any more, and is deleted within a minute. One without the value stays.',
  },
)
export type Expiry = Static<typeof Expiry>

export interface DeclaredExpiry {
  readonly field: string
  readonly afterMs: number
}

const AFTER = { in: 'body', name: 'ttl', pointer: '/ttl/after' } as const
const { afterMsMin, afterMsMax } = COLLECTION_LIMITS.expiry

export const CREATED_AT = '_created_at'

export const expiryOf = ({ field, after }: Expiry): DeclaredExpiry => ({
  field,
  afterMs: after === undefined ? 0 : durationMs(after),
})

/** @throws Problem `validation_failed` */
export function checkExpiry(
  { field, after }: Expiry,
  { mode, formats }: { readonly mode: string; readonly formats: ReadonlyMap<string, Format> },
): void {
  if (mode !== 'enforce') throw fieldProblem('ttl', 'needs mode enforce')
  if (after !== undefined) boundedMs(AFTER, after, { minMs: afterMsMin, maxMs: afterMsMax })
  if (field === CREATED_AT) {
    if (after === undefined) throw fieldProblem('ttl', `${CREATED_AT} needs \`after\`, such as "30d"`)
  } else if (formats.get(field) !== 'date-time')
    throw fieldProblem('ttl', `${field.slice(0, 100)} is not declared as a string with the format date-time`)
}

/** The documents that have not expired, by the clock of this process. */
export function liveFilter(expiry: DeclaredExpiry): Filter {
  const later = testOf(expiry, 'gt')
  const { field } = expiry
  if (field === CREATED_AT) return later
  return { kind: 'any', of: [{ kind: 'null', path: [field], as: 'date-time', not: false }, later] }
}

export const expiredFilter = (expiry: DeclaredExpiry): Filter => testOf(expiry, 'lte')

function testOf({ field, afterMs }: DeclaredExpiry, op: 'gt' | 'lte'): Filter {
  const bound = new Date(Date.now() - afterMs).toISOString()
  const test = (value: string): Test => ({ op, value: [value] })
  if (field === CREATED_AT) return { kind: 'test', path: [field], test: test(bound), not: false }
  const as = 'date-time'
  return { kind: 'test', path: [field], as, test: test(canonicalOf(as, bound) ?? ''), not: false }
}
