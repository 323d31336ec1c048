/** Why a change of a document was not made, as problems. */

import { LIMITS } from '../../core/limits.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { Outcome } from './store.ts'

export const etagOf = (version: number): string => `"v${version}"`

export const missing = (): Problem => notFound('document')

/** The condition was not met (RFC 9110 §13.1.1). */
export function stale(version: number): Problem {
  const detail = `The document is at version ${version}.`
  return new Problem('precondition_failed', { detail, headers: { etag: etagOf(version) } })
}

/** @returns undefined where the change was made */
export function refusalOf(outcome: Outcome): Problem | undefined {
  if ('missing' in outcome) return missing()
  if ('taken' in outcome) return taken(outcome.taken)
  if (!('current' in outcome)) return undefined
  if (outcome.bytes <= LIMITS.documentBytesMax) return stale(outcome.current)
  const detail = `The document would have ${outcome.bytes} bytes; at most ${LIMITS.documentBytesMax} are stored.`
  return new Problem('body_too_large', { detail, members: { limit_bytes: LIMITS.documentBytesMax } })
}

function taken(fields: readonly string[]): Problem {
  const names = fields.join(', ')
  return new Problem('unique_violation', {
    detail: `Another document has the same ${names}.`,
    errors: fields.map((name) => ({ in: 'body', name, pointer: `/${name}`, detail: 'is taken' })),
  })
}
