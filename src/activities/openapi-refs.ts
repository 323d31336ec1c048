/** Knows how to follow `$ref` within one document, and no further. */

import { unescaped } from '../../flows-dsl/json.ts'
import { LIMITS } from '../core/limits.ts'
import { callFailure } from './call-failure.ts'
import { type Fields, fieldsOf } from './http-auth-fields.ts'

/**
 * What stands there, or where its `$ref` leads.
 * @throws ApplicationFailure (configuration) where it leads out of the document, nowhere, or round in a circle
 */
export function resolved(document: Fields, value: unknown): Fields {
  let found = fieldsOf(value)
  for (let count = 0; typeof found['$ref'] === 'string'; count++) {
    const ref = found['$ref']
    if (count === LIMITS.openApi.refsMax) throw refused(ref, 'leads to no end')
    if (ref.length > LIMITS.openApi.refCharsMax) throw refused(ref, 'is too long')
    if (!ref.startsWith('#')) throw refused(ref, 'leads out of the document, which is not followed')
    found = pointed(document, ref)
  }
  return found
}

/** RFC 6901 in a fragment. */
function pointed(document: Fields, ref: string): Fields {
  let at: unknown = document
  for (const part of ref.slice(1).split('/').slice(1)) {
    const key = unescaped(decoded(part))
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) throw refused(ref, 'leads nowhere')
    at = (at as Fields)[key]
  }
  return fieldsOf(at)
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function refused(ref: string, why: string) {
  return callFailure('configuration', `The OpenAPI document has a \`$ref\` that ${why}: ${ref.slice(0, 200)}`)
}
