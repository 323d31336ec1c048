/** Changing a declaration that has documents: judged first, then done with the table in one transaction. */

import { LIMITS } from '../../core/limits.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { enterWorkspace } from '../../platform/access.ts'
import { hasDocumentStore } from '../../platform/capabilities.ts'
import { invalidate } from '../../platform/node-memory.ts'
import { refusal } from '../../platform/pg/errors.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { AdminScope, WorkspaceScope } from '../../platform/scope.ts'
import { type Building, buildingOf, recordBuilding, resumeBuilding } from './building.ts'
import { DECLARATION, type DeclarationRow, memoKey, toDeclaration } from './declarations.ts'
import { type Asking, type Before, declare, type Made } from './declaring.ts'
import { Examination } from './examination.ts'
import { askedOf } from './indexes.ts'
import { COLUMNS, refOf, type Schema } from './shape.ts'
import { widens } from './widens.ts'

/** What of a declaration shall become something else; what is not named stays. */
export type Change = Partial<Omit<Asking, 'store' | 'hasDocumentStore'>>

interface Row extends DeclarationRow, Pick<Schema, 'tenant_id' | 'workspace_id' | 'collection' | 'revision'> {
  readonly last_column: number
  readonly last_index: number
}

/**
 * @param revision the one that the caller knows
 * @returns the declaration as it is now; where indexes are yet to be built, the operation that waits to be started
 * @throws Problem `not_found`; `schema_incompatible` where documents would not fit; `conflict` where the revision
 *   is another one; `state_conflict` while an index is built; `overloaded` where the table is in use for long
 */
export async function evolve(
  scope: AdminScope,
  id: string,
  change: Change,
  revision: number | undefined,
): Promise<Evolved> {
  for (let attempt = 0; attempt < LIMITS.updateAttemptsMax; attempt++) {
    const row = await read(scope, id)
    checkRevision(row, revision)
    const ref = refOf(row)
    await refuseWhileBuilding(scope, ref, row)
    const asked = { ...askedOf(row.indexes), ...change }
    const made = await declare(scope, askingOf(row, asked, hasDocumentStore(scope)), beforeOf(row, change))
    if (
      made.columns.reduce((most, { column }) => Math.max(most, Number(column.slice(1))), 0) >
      LIMITS.tableColumnsEverMax
    )
      throw wornOut()
    const evolved = await once(scope, { row, ref, made, asked })
    if (evolved === undefined) continue
    invalidate(scope, ref, memoKey(row.collection))
    return evolved
  }
  throw new Problem('overloaded', { detail: 'Others change this declaration at the same time.' })
}

export interface Evolved {
  readonly schema: Schema
  readonly building?: Building
}

interface Attempt {
  readonly row: Row
  readonly ref: WorkspaceRef
  readonly made: Made
  readonly asked: Change
}

/** @returns undefined where somebody else changed it meanwhile */
async function once(scope: AdminScope, attempt: Attempt): Promise<Evolved | undefined> {
  const { row, ref, made, asked } = attempt
  const examination = new Examination(row.collection, toDeclaration(row), made.prepared)
  const mode = asked.mode ?? row.mode
  try {
    const mark = needsExamination(row, made, mode)
      ? await beforehand(enterWorkspace(scope, ref), examination)
      : undefined
    return await scope.transaction(ref, async (held) => {
      // The row before the table, as whoever withdraws a declaration takes them.
      const own = await held.row(
        sql`select id from schemas where id = ${row.id} and revision = ${row.revision} for update`,
      )
      if (own === undefined) return undefined
      if (mark !== undefined) await meanwhile(enterWorkspace(held, ref), examination, mark)
      await held.row(sql`
        select tenon.change_collection_table(tenant_id, workspace_id, id, ${JSON.stringify(made.schema)}::jsonb,
          ${mode}, ${JSON.stringify(made.columns)}::jsonb, ${JSON.stringify(made.indexes)}::jsonb,
          ${JSON.stringify(asked.access ?? row.access)}::jsonb)
        from schemas where id = ${row.id}`)
      const schema = await held.row<Schema>(sql`select ${COLUMNS} from schemas where id = ${row.id}`)
      if (schema === undefined) return undefined
      if (buildingOf(schema).length === 0) return { schema }
      return { schema, building: await recordBuilding(held, ref, schema) }
    })
  } catch (error) {
    // Its table has the name of another revision by now.
    if (refusal(error) === 'no_table') return undefined
    throw error
  }
}

/** Documents of a schema that was enforced fit it, and so whatever widens it. */
function needsExamination(row: Row, made: Made, mode: string): boolean {
  if (mode !== 'enforce') return false
  return row.mode !== 'enforce' || !widens(toDeclaration(row).schema.schema, made.prepared.schema)
}

/** All documents while others write, then what was written meanwhile, until that is little. @returns the mark */
async function beforehand(inside: WorkspaceScope, examination: Examination): Promise<string> {
  let mark = await examination.mark(inside)
  await examination.all(inside)
  for (let round = 0; round < CATCHING_UP_MAX; round++) {
    const next = await examination.mark(inside)
    const ids = await examination.since(inside, mark)
    if (ids.length < LIMITS.examinedWhileLockedMax) break
    await examination.these(inside, ids)
    mark = next
  }
  return mark
}
const CATCHING_UP_MAX = 10

/** Nobody writes from here to the end of the transaction. */
async function meanwhile(inside: WorkspaceScope, examination: Examination, mark: string): Promise<void> {
  await examination.lock(inside)
  await examination.these(inside, await examination.since(inside, mark))
}

async function read(scope: AdminScope, id: string): Promise<Row> {
  const row = await scope.row<Row>(sql`
    select ${DECLARATION}, tenant_id, workspace_id, collection, revision, last_column, last_index
    from schemas where id = ${id}`)
  if (row === undefined) throw notFound('schema')
  return row
}

function checkRevision({ revision }: Row, known: number | undefined): void {
  if (known === undefined || known === revision) return
  throw new Problem('conflict', {
    detail: `The declaration is at revision ${revision}, not ${known}.`,
    hint: 'Read it again, then retry.',
  })
}

async function refuseWhileBuilding(scope: AdminScope, ref: WorkspaceRef, row: Row): Promise<void> {
  const building = row.indexes.filter(({ state }) => state === 'building')
  if (building.length === 0) return
  const names = building.map(({ name }) => name)
  const operation = await resumeBuilding(scope, ref, row.id, names)
  throw new Problem('state_conflict', {
    detail: `An index over ${building.map(({ fields }) => fields.join(', ')).join(' and over ')} is being built.`,
    hint: `Wait until its operation has ended: ${operation}.`,
  })
}

function askingOf(
  row: Row,
  asked: Change & Pick<Asking, 'indexes' | 'unique'>,
  hasDocumentStore: boolean,
): Asking {
  const { schema, mode, access, store } = row
  return { schema, mode, access, ...asked, store, hasDocumentStore }
}

const beforeOf = ({ columns, indexes, last_column, last_index }: Row, change: Change): Before => ({
  columns: {
    columns,
    last: highest(
      last_column,
      columns.map(({ column }) => column),
    ),
  },
  indexes: {
    indexes,
    last: highest(
      last_index,
      indexes.map(({ name }) => name),
    ),
    retried: change.indexes !== undefined || change.unique !== undefined,
  },
})

const highest = (last: number, names: readonly string[]) =>
  Math.max(last, ...names.map((name) => Number(name.slice(1))))

const wornOut = () =>
  new Problem('state_conflict', {
    detail: `The collection's table has had ${LIMITS.tableColumnsEverMax} columns in its life, which is all that it takes.`,
    hint: 'Declare another collection, and copy the documents.',
  })
