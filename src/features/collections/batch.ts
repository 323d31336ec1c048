/** Operations that change several documents in one call: all or none, or each by itself. */

import Type, { type Static } from 'typebox'
import { Input, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { DATA_ROLES, isPublicRole, type Role } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { CpuBudget } from '../../infra/cpu-budget.ts'
import { type BatchOperation, Op, OpAnywhere, readBatch, toWanted } from './batch-operations.ts'
import type { WantedChange } from './check-changes.ts'
import { CollectionName } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { BY_ID } from './query/filter.ts'
import { READ_AT_ONCE } from './references/targets.ts'
import { withCollection, withExpired } from './resolve-store.ts'
import { isRefusal, type Store, type Written } from './store.ts'
import { write, writeAll, writeChecked } from './write.ts'

const Atomic = Type.Optional(
  Type.Boolean({
    description:
      'True if either all changes are made or none; `false`: each change on its own. Default: `true`.',
  }),
)
const count = { minItems: 1, maxItems: COLLECTION_LIMITS.batchOperationsMax }

const Result = component(
  'BatchResult',
  Type.Object({
    status: Type.Integer({ description: 'HTTP status that the change would have as a request of its own.' }),
    ref: Type.Optional(Type.String()),
    id: Type.Optional(Type.String()),
    version: Type.Optional(Type.Integer()),
    error: Type.Optional(
      Type.Object({
        code: Type.String(),
        detail: Type.Optional(Type.String()),
        hint: Type.Optional(Type.String({ description: 'The next step.' })),
        referring: Type.Optional(
          Type.Array(Type.Unknown(), { description: 'Documents that refer to the one to be deleted.' }),
        ),
        errors: Type.Optional(Type.Array(Type.Unknown())),
      }),
    ),
  }),
  { status: 201, id: EXAMPLE_ID.booking, version: 1 },
)
const Results = component(
  'BatchResults',
  Type.Object({
    committed: Type.Boolean({ description: 'True if all changes were made.' }),
    results: Type.Array(Result),
  }),
  { committed: true, results: [exampleOf(Result)] },
)

export const batchDocuments = workspaceOperation({
  name: 'collection.batch',
  summary: 'Write several documents of a collection in one request; by default, all or none',
  roles: DATA_ROLES,
  input: Input({ name: CollectionName, atomic: Atomic, ops: Type.Array(Op, count) }),
  output: Results,
  http: {
    method: 'POST',
    path: '/v1/collections/{name}/batch',
    body: '*',
    bodyBytesMax: COLLECTION_LIMITS.batchBytesMax,
  },
  run: (scope, { name, atomic, ops }) =>
    runAll(
      scope,
      ops.map((op) => ({ ...op, collection: name })),
      atomic,
    ),
})

export const batchAnywhere = workspaceOperation({
  name: 'batch.run',
  area: 'collections',
  summary: 'Write documents of several collections in one request; by default, all or none',
  roles: DATA_ROLES,
  input: Input({ atomic: Atomic, ops: Type.Array(OpAnywhere, count) }),
  output: Results,
  http: { method: 'POST', path: '/v1/batch', body: '*', bodyBytesMax: COLLECTION_LIMITS.batchBytesMax },
  run: (scope, { atomic, ops }) => runAll(scope, ops, atomic),
})

async function runAll(
  scope: WorkspaceScope,
  ops: readonly OpAnywhere[],
  atomic = true,
): Promise<Static<typeof Results>> {
  const budget = new CpuBudget()
  const batch = await readBatch(ops, budget)
  if (!atomic) return runOneByOne(scope, batch, budget)
  const wanted: WantedChange[] = []
  const idOf = (index: number) => wanted[index]?.id ?? ''
  for (const one of batch) {
    wanted.push(budget.run(() => toWanted(one, scope.uuid(), idOf)))
    await budget.yield()
  }
  const outputOf = (written: readonly Written[]) => ({
    committed: true,
    results: written.map((result, index) => resultOf(ops[index], result)),
  })
  const { completion } = scope
  const once = completion && {
    keep: (written: readonly Written[]) => completion.keep(outputOf(written)),
    effect: completion.marked(0),
  }
  // The budget is for those who send many documents.
  const options = { once, ...(ops.length > 1 && { budget }) }
  const written = await writeAll(scope, wanted, options).catch((error: unknown) => {
    // A single change has no `op_index` yet.
    throw error instanceof Problem && ops.length === 1 ? error.with({ op_index: 0 }) : error
  })
  return outputOf(written)
}

/**
 * Executes them in order, since a later one may depend on an earlier one. Those that an earlier attempt of the request has
 * done are not repeated.
 */
async function runOneByOne(
  scope: WorkspaceScope,
  batch: readonly BatchOperation[],
  budget: CpuBudget,
): Promise<Static<typeof Results>> {
  const results: Static<typeof Result>[] = []
  const { completion } = scope
  for (const [index, one] of batch.entries()) {
    const { op } = one
    // Also for an operation that is done, so that those after it have the same ids at every attempt.
    const newId = scope.uuid()
    const done = completion?.parts[index] as Static<typeof Result> | undefined
    if (done !== undefined) {
      results.push(done)
      continue
    }
    const once = completion && {
      keep: ([written]: readonly Written[]) => completion.keepPart(index, written && resultOf(op, written)),
      effect: completion.marked(index),
    }
    const run = async () =>
      write(
        scope,
        toWanted(one, newId, (at) => idIn(results, at)),
        { budget, once },
      )
    const result = await run().then(
      (written) => resultOf(op, written),
      (error) => errorResult(scope.actor, op, error),
    )
    results.push(result)
  }
  return { committed: results.every(({ error }) => error === undefined), results }
}

/** The document of an operation that was made. @throws Problem `referenced_operation_failed` */
function idIn(results: readonly Static<typeof Result>[], index: number): string {
  const { id, error } = results[index] ?? {}
  if (id !== undefined && error === undefined) return id
  const detail = `Operation ${index}, to whose document this operation refers, has failed.`
  throw new Problem('referenced_operation_failed', { detail })
}

function resultOf(op: OpAnywhere | undefined, { id, version, created }: Written): Static<typeof Result> {
  return { status: created ? 201 : 200, ...(op?.ref !== undefined && { ref: op.ref }), id, version }
}

function errorResult(
  { role }: { readonly role: Role },
  op: OpAnywhere,
  error: unknown,
): Static<typeof Result> {
  // A server error would hit the other operations, too.
  // A claim that another attempt has taken over is lost for the other operations, too.
  if (!(error instanceof Problem) || error.status >= 500 || error.code === 'idempotency_in_flight')
    throw error
  const { code, detail, errors, members, status } = error
  const { referring } = members
  return {
    status,
    ...(op.ref !== undefined && { ref: op.ref }),
    ...(typeof op.id === 'string' && { id: op.id }),
    error: {
      code,
      ...(detail !== undefined && { detail }),
      hint: isPublicRole(role) ? error.publicHint : error.fullHint,
      ...(Array.isArray(referring) && { referring }),
      // Bounded, since a batch may have five hundred operations.
      ...(errors.length > 0 && { errors: errors.slice(0, COLLECTION_LIMITS.batchDiagnosticsReturnedMax) }),
    },
  }
}

/** Gives some documents of an owner to another, as {@link Store.changeOwner}. @param service scope with the rights of a service key */
export const changeOwner = (
  service: WorkspaceScope,
  name: string,
  change: Parameters<Store['changeOwner']>[2],
): Promise<number> =>
  withCollection(service, name, ['update'], (collection, inside) => {
    // An expired document may stay for long.
    const all = withExpired(inside, collection)
    return all.store.changeOwner(inside, all, change)
  })

function keptIfTooLarge(error: unknown): 'kept' {
  if (error instanceof Problem && error.code === 'cascade_too_large') return 'kept'
  throw error
}

/**
 * Deletes some documents of an owner, those that have expired among them, which no request finds.
 * @param service scope with the rights of a service key
 * @returns how many it has deleted, and whether others refer to some that stay
 */
export const deleteExpiredOf = (
  service: WorkspaceScope,
  name: string,
  owner: string,
): Promise<{ readonly removed: number; readonly isReferred: boolean }> =>
  withCollection(service, name, ['delete'], async (collection, inside) => {
    const all = withExpired(inside, collection)
    const found = { removed: 0, isReferred: false }
    if (all === collection) return found
    const filter = {
      kind: 'test',
      path: ['_owner'],
      test: { op: 'in', values: [[owner]] },
      not: false,
    } as const
    for (let after: string | undefined = ''; after !== undefined && found.removed === 0; ) {
      const page = { filter, order: BY_ID, limit: READ_AT_ONCE }
      const { rows } = await all.store.list(inside, all, after === '' ? page : { ...page, after: [after] })
      for (const { id } of rows) {
        const change = { verb: 'delete', collection: all, id, warnings: [] } as const
        const result = await writeChecked(inside, all.store, [change]).catch(keptIfTooLarge)
        // A document that no statement has read yet must not count as deleted.
        if (result === undefined)
          throw new Problem('overloaded', { detail: 'Other writers were in the way.' })
        if (result === 'kept' || (isRefusal(result) && 'referenced' in result)) found.isReferred = true
        else if (!isRefusal(result)) found.removed += 1
      }
      after = rows.at(-1)?.id
    }
    return found
  })
