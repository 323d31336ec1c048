/** Plans a set of declarations: what differs from those that there are, what that costs, and the order in which it is done. */

import { createHash } from 'node:crypto'
import type { AdminScope } from '../../../access/scope.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { canonical } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { hasDocuments } from '../mongo/documents.ts'
import { isNewIndex, partsWithout } from '../postgres/collection-table.ts'
import { requireRightToWiden } from '../rules/access.ts'
import type { Index } from './api-types.ts'
import { buildDeclaration } from './build-declaration.ts'
import { checkImmutable, type PreparedChange, prepareChange } from './change-schema.ts'
import { type NewDeclaration, requestOf } from './declare-collection.ts'
import { countUndeclared, DECLARED_ROW, type DeclaredRow } from './declared-tables.ts'
import type { RequestedFieldChanges } from './field-changes.ts'

/** One of a set, for a collection that may be declared already. */
export type Planned = Omit<NewDeclaration, 'workspace_id'> & RequestedFieldChanges

/**
 * `instant`: at once, however many documents there are; `validate`: documents are read; `rewrite`: values of documents are moved, while writers wait;
 * `index`: an index is built; `destructive`: documents are deleted.
 */
export const EFFECTS = ['instant', 'validate', 'rewrite', 'index', 'destructive'] as const

interface PlannedChange {
  readonly collection: string
  /** The member of the declaration that differs; `collection` if it is new. */
  readonly member: string
  readonly effect: (typeof EFFECTS)[number]
  readonly detail: string
}

/** The changes of one collection. */
export interface Step {
  readonly declaration: Planned
  /** The declaration that there is. */
  readonly row: DeclaredRow | undefined
  readonly changes: readonly PlannedChange[]
}

export interface Plan {
  /** In the order in which they are done: what others refer to comes first. Those without a change are left out. */
  readonly steps: readonly Step[]
  /** Of the declarations that are wanted, and of those that there are. */
  readonly fingerprint: string
}

/** @throws Problem as the changes themselves do, but for documents that do not fit */
export async function planSchemas(
  scope: AdminScope,
  ref: WorkspaceRef,
  declarations: readonly Planned[],
): Promise<Plan> {
  const rows = await declaredAmong(scope, ref, declarations)
  await requireTargets(scope, ref, declarations)
  const wanted = inOrder(declarations)
  const steps: Step[] = []
  for (const declaration of wanted) {
    const row = rows.get(declaration.collection)
    const changes =
      row === undefined
        ? await planNew(scope, ref, { declaration, others: declarations })
        : await planExisting(scope, row, declaration)
    if (changes.length > 0) steps.push({ declaration, row, changes })
  }
  const known = [...rows.values()].map(({ id, revision }) => `${id} ${revision}`).sort()
  const of = canonical({ workspace: ref.workspaceId, wanted, known })
  return { steps, fingerprint: createHash('sha256').update(of).digest('hex').slice(0, 32) }
}

async function declaredAmong(
  scope: AdminScope,
  { workspaceId }: WorkspaceRef,
  declarations: readonly Planned[],
): Promise<Map<string, DeclaredRow>> {
  const names = declarations.map(({ collection }) => collection)
  const twice = names.findIndex((name, at) => names.indexOf(name) !== at)
  if (twice >= 0)
    throw bodyProblem(`/schemas/${twice}/collection`, 'is there twice', `${names[twice]} is there twice.`)
  const rows = await scope.rows<DeclaredRow>(sql`
    select ${DECLARED_ROW} from schemas
    where workspace_id = ${workspaceId} and collection = any(${textArray(names)}::text[])`)
  return new Map(rows.map((row) => [row.collection, row]))
}

/** @throws Problem `validation_failed` for a reference to a collection that is neither declared nor planned */
async function requireTargets(
  scope: AdminScope,
  { workspaceId }: WorkspaceRef,
  declarations: readonly Planned[],
): Promise<void> {
  const planned = new Set(declarations.map(({ collection }) => collection))
  const targets = declarations.flatMap(({ references = [] }) => references.map((one) => one.collection))
  const rows = await scope.rows<{ collection: string }>(sql`
    select collection from schemas where workspace_id = ${workspaceId} and collection = any(${textArray(targets)}::text[])`)
  const known = new Set([...planned, ...rows.map(({ collection }) => collection)])
  for (const [at, { references = [] }] of declarations.entries())
    for (const [index, { collection }] of references.entries()) {
      const detail = `${collection} is neither declared nor planned`
      if (!known.has(collection))
        throw bodyProblem(`/schemas/${at}/references/${index}/collection`, detail, `references: ${detail}`)
    }
}

/** By name, but each behind those that its references and lookups lead to. */
function inOrder(declarations: readonly Planned[]): Planned[] {
  const byName = new Map(declarations.map((one) => [one.collection, one]))
  const ordered = new Map<string, Planned>()
  const visit = (name: string, from: readonly string[]) => {
    const declaration = byName.get(name)
    if (declaration === undefined || ordered.has(name) || from.includes(name)) return
    const { references = [], access } = declaration
    const needed = [...references, ...Object.values(access?.lookups ?? {})]
    for (const { collection } of needed) visit(collection, [...from, name])
    ordered.set(name, declaration)
  }
  for (const name of [...byName.keys()].sort()) visit(name, [])
  return [...ordered.values()]
}

async function planNew(
  scope: AdminScope,
  ref: WorkspaceRef,
  { declaration, others }: { readonly declaration: Planned; readonly others: readonly Planned[] },
): Promise<PlannedChange[]> {
  const { renamed_from: _, backfill: __, ...declared } = declaration
  const { collection, mode, access, indexes = [], unique = [], trigram = [], exclude = [], ttl } = declared
  const { search, arrays = [], geo } = declared
  requireRightToWiden(scope, undefined, access ?? {})
  const lookedUp = Object.values(access?.lookups ?? {}).map((lookup) => lookup.collection)
  // Rules that read a collection which is yet to be declared are checked when they are.
  const isCheckable = !others.some((other) => lookedUp.includes(other.collection))
  if (isCheckable)
    await buildDeclaration(scope, {
      ...requestOf(scope, { workspace_id: ref.workspaceId, ...declared }),
      isRestored: true,
    })
  const change = (member: string, effect: PlannedChange['effect'], detail: string) => ({
    ...{ collection, member, effect, detail },
  })
  const made = change('collection', 'instant', `${collection} is declared.`)
  const inMongo = hasDocumentStore(scope)
  const isFilled = inMongo
    ? declared.store === 'document' && (await hasDocuments(scope, ref, collection))
    : (await countUndeclared(scope, ref, { collection, max: 0 })) > 0
  if (!isFilled) return [made]
  const lists = [indexes, unique, trigram, exclude, arrays]
  const isIndexed = lists.some((list) => list.length > 0) || Boolean(search ?? geo)
  return [
    made,
    ...((mode ?? 'enforce') === 'enforce' ? [change('schema', 'validate', 'Documents must match it.')] : []),
    ...(inMongo ? [] : [change('collection', 'rewrite', 'Documents move into a table of their own.')]),
    ...(isIndexed ? [change('indexes', 'index', 'Indexes of the documents are built.')] : []),
    ...(ttl ? [change('ttl', 'destructive', 'Documents that have expired are deleted.')] : []),
  ]
}

async function planExisting(
  scope: AdminScope,
  row: DeclaredRow,
  { collection, store, ...change }: Planned,
): Promise<PlannedChange[]> {
  checkImmutable(row, { store })
  const prepared = await prepareChange(scope, row, change, true)
  return differences(prepared).map((one) => ({ collection, ...one }))
}

type Difference = Omit<PlannedChange, 'collection'>

function differences({ row, request, built, fields, isScanned }: PreparedChange): Difference[] {
  const isRelational = row.store === 'relational'
  const found: Difference[] = []
  const add = (member: string, effect: PlannedChange['effect'], detail: string) =>
    found.push({ member, effect, detail })
  for (const [from, to] of fields.renames)
    add('renamed_from', isRelational ? 'instant' : 'rewrite', `${from} is renamed to ${to}.`)
  for (const name of fields.values.keys())
    add('backfill', 'rewrite', `Documents without ${name} get a value.`)
  if (row.mode !== request.mode)
    add('mode', 'instant', `The mode changes from ${row.mode} to ${request.mode}.`)
  if (isScanned) add('schema', 'validate', 'Documents must match the new schema.')
  else if (canonical(row.schema) !== canonical(built.schema))
    add('schema', 'instant', 'All documents that match the schema match the new one.')
  if (canonical(row.columns) !== canonical(built.columns))
    add('schema', 'rewrite', 'Values move between columns.')
  if (canonical(row.access) !== canonical(request.access)) add('access', 'instant', 'The rules change.')
  return [...found, ...indexDifferences(row.indexes, built.indexes), ...otherDifferences(row, built)]
}

function indexDifferences(before: readonly Index[], after: readonly Index[]): Difference[] {
  const member = ({ unique, kind }: Index) => (unique ? 'unique' : (kind ?? 'indexes'))
  const named = ({ fields }: Index) => fields.join(', ')
  return [
    ...after
      .filter((one) => isNewIndex({ indexes: before }, one))
      .map((one) => ({
        member: member(one),
        effect: 'index' as const,
        detail: `An index on ${named(one)} is built.`,
      })),
    ...before
      .filter((one) => isNewIndex({ indexes: after }, one))
      .map((one) => ({
        member: member(one),
        effect: 'instant' as const,
        detail: `The index on ${named(one)} is removed.`,
      })),
  ]
}

function otherDifferences(row: DeclaredRow, built: PreparedChange['built']): Difference[] {
  const changed = <T>(
    member: string,
    [before, after]: readonly [readonly T[], readonly T[]],
    effect: Difference['effect'],
    what: string,
  ): Difference[] => [
    ...(partsWithout(after, before).length > 0
      ? [{ member, effect, detail: `${what} are added or changed.` }]
      : []),
    ...(partsWithout(before, after).length > 0
      ? [{ member, effect: 'instant' as const, detail: `${what} are removed or changed.` }]
      : []),
  ]
  const expires = canonical(row.ttl) !== canonical(built.ttl)
  return [
    ...changed('references', [row.relations, built.references], 'validate', 'References'),
    ...changed('checks', [row.checks, built.checks], 'instant', 'Checks'),
    ...changed('exclude', [row.exclusions, built.exclusions], 'index', 'Ranges that do not overlap'),
    ...(expires && built.ttl !== null
      ? [
          {
            member: 'ttl',
            effect: 'destructive' as const,
            detail: 'Documents that have expired are deleted.',
          },
        ]
      : []),
    ...(expires && built.ttl === null
      ? [{ member: 'ttl', effect: 'instant' as const, detail: 'Documents no longer expire.' }]
      : []),
  ]
}

/** @throws Problem `plan_outdated` */
export function requirePlanned(plan: Plan, fingerprint: string): void {
  if (plan.fingerprint === fingerprint) return
  throw new Problem('plan_outdated', {
    detail: 'The declarations are not those of the plan any more. Nothing was changed.',
  })
}
