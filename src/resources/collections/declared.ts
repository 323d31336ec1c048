/** A store under a declaration: documents are validated, filters have the types of the declared properties. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import type { Declaration } from '../schemas/declarations.ts'
import { type Fault, faultsOf } from '../schemas/validate.ts'
import { type Content, checkFields, type Fields } from './fields.ts'
import { asDeclared } from './query.ts'
import type { Collection, Store, Stored, Updated } from './store.ts'

/** The store, with the rules of the collection's declaration before it. */
export function declaredStore(inner: Store, declared: Declaration): Store {
  return {
    get: inner.get,
    delete: inner.delete,
    create: async (scope, collection, id, content) => {
      const warnings = judge(declared, content.fields)
      return warned(await inner.create(scope, collection, id, content), warnings)
    },
    list: async (scope, collection, query) => inner.list(scope, collection, asDeclared(query, declared)),
    update: (scope, collection, id, content, ifVersion) =>
      declared.mode === 'off' && declared.store === 'document'
        ? inner.update(scope, collection, id, content, ifVersion)
        : update(inner, declared, { scope, collection, id, content, ifVersion }),
  }
}

/** The faults to warn of. @throws Problem `schema_violation` with all of them where the schema is enforced */
function judge({ mode, schema }: Declaration, fields: Fields): Fault[] {
  const faults = mode === 'off' ? [] : faultsOf(schema, fields)
  if (mode !== 'enforce' || faults.length === 0) return faults
  const detail = faults.map((fault) => `${fault.pointer || 'the document'} ${fault.detail}`).join('; ')
  throw new Problem('schema_violation', { detail, errors: faults })
}

const warned = (stored: Stored, warnings: readonly Fault[]): Stored =>
  warnings.length === 0 ? stored : { ...stored, warnings }

interface Update {
  readonly scope: WorkspaceScope
  readonly collection: Collection
  readonly id: string
  readonly content: Content
  readonly ifVersion: number | undefined
}

/**
 * What is judged is the document that comes out, so it is read first and written on the condition that nobody else
 * did meanwhile. Of several writers at once one gets through each time, so every round brings somebody home.
 */
async function update(inner: Store, declared: Declaration, asked: Update): Promise<Updated> {
  const { scope, collection, id, content, ifVersion } = asked
  for (let attempt = 0; attempt < LIMITS.updateAttemptsMax; attempt++) {
    const current = await inner.get(scope, collection, id)
    if (current === undefined) return undefined
    if (ifVersion !== undefined && ifVersion !== current.version) return { staleAt: current.version }
    const merged = checkFields({ ...current.fields, ...content.fields })
    const warnings = judge(declared, merged.fields)
    const updated = await inner.update(scope, collection, id, content, current.version)
    if (updated === undefined || !('staleAt' in updated))
      return updated && 'stored' in updated ? { stored: warned(updated.stored, warnings) } : updated
  }
  throw new Problem('overloaded', { detail: 'Too many writers change this document at once.' })
}
