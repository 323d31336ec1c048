/** Sets references of documents to null, as a change of each: validated, with its version and its event. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { checkAll, isBlindWrite } from '../check-changes.ts'
import { conflictOf } from '../postgres/table-constraints.ts'
import { updateManyStatement } from '../postgres/write-statements.ts'
import type { Collection } from '../store.ts'
import { READ_AT_ONCE } from './targets.ts'

/** The names of fields by the id of their document. */
export type FieldsById = Map<string, readonly string[]>

/** Documents that would not be valid with null in place of their reference, or would conflict with others. */
export class NotNullable extends Error {
  readonly ids: readonly string[]
  constructor(ids: readonly string[], cause?: unknown) {
    super('a reference cannot be set to null', { cause })
    this.ids = ids
  }
}

/**
 * @param service scope with the rights of a service key, in the transaction that has locked the documents
 * @param collection with the documents that have expired
 * @throws NotNullable
 */
export async function setNull(
  service: WorkspaceScope,
  collection: Collection,
  fieldsById: FieldsById,
): Promise<void> {
  const budget = new CpuBudget()
  const byFields = Map.groupBy(fieldsById, ([, fields]) => JSON.stringify(fields))
  for (const documents of byFields.values()) {
    const [fields = []] = documents.map(([, names]) => names)
    const data = Object.fromEntries(fields.map((name) => [name, null]))
    for (let at = 0; at < documents.length; at += READ_AT_ONCE) {
      const ids = documents.slice(at, at + READ_AT_ONCE).map(([id]) => id)
      await setSome(service, collection, { ids, data, budget })
    }
  }
}

interface Some {
  readonly ids: readonly string[]
  readonly data: Readonly<Record<string, null>>
  readonly budget: CpuBudget
}

async function setSome(
  service: WorkspaceScope,
  collection: Collection,
  { ids, data, budget }: Some,
): Promise<void> {
  const wanted = ids.map(
    (id) => ({ op: 'update', collection: collection.name, id, data, unset: [] }) as const,
  )
  const isBlind = wanted.every((change) => isBlindWrite(collection, change))
  const currents = isBlind
    ? undefined
    : await collection.store.read(
        service,
        ids.map((id) => ({ collection, id })),
      )
  const checking = { at: () => collection, currents, find: async () => undefined, budget }
  const changes = await checkAll(service, wanted, checking).catch((error: unknown) => {
    throw asNotNullable(error, ids)
  })
  const updates = changes.filter((change) => change.verb === 'update')
  const statement = updateManyStatement({ collection, oneOfMany: true }, updates)
  const rows = await service
    .rows<{ id: string | null; item_id: string }>(statement)
    .catch((error: unknown) => {
      throw conflictOf(error, collection, 'update') === undefined ? error : new NotNullable(ids, error)
    })
  // It would become too large.
  const refused = rows.filter(({ id }) => id === null).map(({ item_id }) => item_id)
  if (refused.length > 0) throw new NotNullable(refused)
}

/** A document that is not valid stands in the way; a budget that is spent does not. */
function asNotNullable(error: unknown, ids: readonly string[]): unknown {
  if (!(error instanceof Problem) || error.status >= 500 || error.code === 'validation_too_costly')
    return error
  const { op_index: index = 0 } = error.members
  return new NotNullable(ids.slice(Number(index), Number(index) + 1), error)
}
