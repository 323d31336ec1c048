/** Which scopes a key may be given: those that operations need, and for anon keys those that read. */

import Type from 'typebox'
import { nearest } from '../../../flows-dsl/faults.ts'
import { LIMITS } from '../../core/limits.ts'
import { isWriteScope } from '../../core/policy.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { DATA_OPERATIONS } from '../data.ts'
import type { ApiKey } from './key.ts'

/** Every scope that an operation needs, in the order of their names. */
export const SCOPES: readonly string[] = [
  ...new Set(DATA_OPERATIONS.flatMap(({ requiredScope }) => requiredScope ?? [])),
].sort()

export const Scopes = Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
  maxItems: LIMITS.keyScopesMax,
  description: `What the key is narrowed to; empty: everything that its kind may do. There are ${SCOPES.join(', ')}.`,
})

/**
 * The scopes as they are kept: each once, in the order of their names.
 * @throws Problem `validation_failed` that names every one that is not to be had
 */
export function checkedScopes(scopes: readonly string[], kind: ApiKey['kind']): string[] {
  const errors = scopes.flatMap((scope, index) => {
    const detail = faultOf(scope, kind)
    return detail === undefined ? [] : [at(index, detail)]
  })
  if (errors.length === 0) return [...new Set(scopes)].sort()
  const detail = errors.map((error) => `${error.name}: ${error.detail}`).join('; ')
  throw new Problem('validation_failed', {
    detail,
    errors: errors.slice(0, LIMITS.faultsShownMax),
    members: { known: SCOPES },
  })
}

const at = (index: number, detail: string): InputError => ({
  ...{ in: 'body', name: `scopes.${index}`, pointer: `/scopes/${index}`, detail },
})

function faultOf(scope: string, kind: ApiKey['kind']): string | undefined {
  if (!SCOPES.includes(scope)) {
    const near = nearest(scope, SCOPES)
    const hint = near === undefined ? `There are ${SCOPES.join(', ')}.` : `Did you mean ${near}?`
    return `There is no such scope. ${hint}`
  }
  if (kind === 'anon' && isWriteScope(scope))
    return 'An anon key is shipped to browsers: it may be narrowed to reading alone. What it writes beyond is what collections allow it, without scopes.'
  return undefined
}
