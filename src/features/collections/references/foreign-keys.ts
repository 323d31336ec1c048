/** The foreign keys of references, and the documents that were there before them. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { shortPointer } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { type ForeignKey, tableName } from '../postgres/collection-table.ts'
import type { TableColumn } from '../schemas/columns.ts'
import { columnOf, isHeld, type Reference } from './reference.ts'

const openDocuments = privilege('collections.references')

/** A foreign key, and the reference that it is of. */
export interface ReferenceKey extends ForeignKey {
  readonly reference: Reference
}

interface Referring {
  readonly workspaceId: string
  readonly collection: string
  /** The name of its table. */
  readonly relation: string
  readonly references: readonly Reference[]
  readonly columns: readonly TableColumn[]
}

/** The foreign keys of references. What they lead to is not renamed until the transaction ends. */
export async function lockTargets(
  transaction: AdminScope,
  { workspaceId, collection, relation: own, references, columns }: Referring,
): Promise<ReferenceKey[]> {
  const names = references.map((reference) => reference.collection).filter((name) => name !== collection)
  const rows =
    names.length === 0
      ? []
      : await transaction.rows<{ collection: string; relation: string }>(sql`
          select collection, relation from schemas
          where workspace_id = ${workspaceId} and collection = any(${textArray(names)}::text[]) order by id for share`)
  const relations = new Map([
    [collection, own],
    ...rows.map((row) => [row.collection, row.relation] as const),
  ])
  return references.flatMap((reference, index) => {
    const [column, relation] = [columnOf(reference, columns), relations.get(reference.collection)]
    // It was deleted since the declaration was checked.
    if (relation === undefined) throw notDeclared(reference, index)
    return column === undefined || !isHeld(reference) ? [] : [{ column, relation, reference }]
  })
}

function notDeclared({ collection }: Reference, index: number): Problem {
  const detail = `${collection} is not declared in this workspace`
  return bodyProblem(`/references/${index}/collection`, detail, `references: ${detail}`)
}

/**
 * Checks what was stored before the foreign keys, which hold for later changes only: PostgreSQL would check the rest as the owner of the
 * tables, to whom row-level security shows none.
 * @param relation the table with the foreign keys; the transaction has locked it against other writers
 * @throws Problem `schema_incompatible` with documents that refer to one that is not there
 */
export async function requireResolved(
  transaction: AdminScope,
  ref: WorkspaceRef,
  { relation, keys }: { readonly relation: string; readonly keys: readonly ReferenceKey[] },
): Promise<void> {
  const documents = openDocuments(transaction, ref)
  const referring = tableName({ relation })
  for (const { column, relation: target, reference } of keys) {
    const id = sql`referring.${Sql.identifier(column)}`
    const found = await documents.rows<{ id: string }>(sql`
      select referring.id from ${referring} referring where ${id} is not null
        and not exists (select from ${tableName({ relation: target })} target where target.id = ${id})
      order by referring.id limit ${CORE_LIMITS.diagnosticsReturnedMax}`)
    if (found.length > 0) throw unresolvedDocuments(reference, found)
  }
}

function unresolvedDocuments(
  { field, collection }: Reference,
  found: readonly { readonly id: string }[],
): Problem {
  const detail = `refers to no document of ${collection}`
  return new Problem('schema_incompatible', {
    detail: `Documents have an id in ${field} that no document of ${collection} has.`,
    hint: 'Mend or delete the documents of `offending`, then declare the reference.',
    members: { offending: found.map(({ id }) => ({ id, pointer: `/${shortPointer(field)}`, detail })) },
  })
}
