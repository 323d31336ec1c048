/** Operations that change all documents of a collection that match a filter. */

import Type, { type Static } from 'typebox'
import { Input, Ref, Wait, workspaceOperation } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID } from '../../../core/components/examples.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { isPublicRole, type Role } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { FunctionTrigger } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { isUnavailable } from '../../../infra/retry.ts'
import { SHARED_LIMITS } from '../../limits.ts'
import { bodyProblem, findRow, listPage, nextChainDepth } from '../../operation-helpers.ts'
import { callerOf, callTrigger } from '../../runs/caller.ts'
import { CollectionName, checkFields, Fields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { OPERATOR_MEMBERS, readOperators } from '../operators.ts'
import { readBodyFilter } from '../query/body.ts'
import { BY_ID, type Filter } from '../query/filter.ts'
import { countCascades } from '../references/cascade.ts'
import { withRelated } from '../references/related.ts'
import { inLine } from '../scans.ts'
import type { Collection } from '../store.ts'
import { applyDeclaration } from '../typed-query.ts'
import {
  BULK_RIGHTS,
  BulkChange,
  type BulkRequest,
  COLUMNS,
  startBulkChange,
  workflowOf,
} from './bulk-change.ts'

/** Anon keys change one document at a time. */
const ROLES = ['service', 'user'] as const satisfies readonly Role[]
const AREA = { area: 'collections' } as const

const Preview = component(
  'BulkChangePreview',
  Type.Object({
    dry_run: Type.Literal(true),
    matched: Type.Integer({ description: 'Number of documents that match now.' }),
    cascades: Type.Optional(
      Type.Integer({
        description: `Number of documents that references would delete or change besides those that match: of the first ${COLLECTION_LIMITS.cascadeDocumentsMax} that match, up to as many. For service keys, if the collection has such references.`,
      }),
    ),
    sample: Type.Array(Type.String(), { description: 'Ids of the first documents that match.' }),
  }),
  { dry_run: true, matched: 120, sample: [EXAMPLE_ID.booking] },
)

const SELECTING = {
  name: CollectionName,
  filter: Type.Record(Type.String(), Type.Unknown(), {
    description:
      'Filter of the documents to change, as in a query: `{"status": "open", "age": {"gte": 18}}`. An empty one needs `all`.',
  }),
  all: Type.Optional(
    Type.Boolean({
      description: 'True if an empty filter means all documents. Default: `false`, which refuses one.',
    }),
  ),
  max_documents: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description:
        'Number of documents that may match at most. If more match, nothing is changed; if others come to match meanwhile, it ends with `too_many_matches` before it would exceed the number.',
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({
      description: 'True if nothing is changed: the reply says how many documents match. Default: `false`.',
    }),
  ),
  wait: Wait,
}

const asBulkChange = (path: string) => ({
  method: 'POST' as const,
  path,
  body: '*' as const,
  headers: { wait: 'prefer' as const },
  status: (output: object) => ('dry_run' in output ? 200 : 202),
  location: (output: Static<typeof BulkChange> | Static<typeof Preview>) =>
    'id' in output ? `/v1/collections/${output.collection}/bulk-changes/${output.id}` : undefined,
})

export const updateMany = workspaceOperation({
  name: 'collection.update_many',
  summary:
    'Update all documents that match a filter, in batches; the reply is the bulk change, which a worker makes',
  roles: ROLES,
  ...AREA,
  input: Input({
    ...SELECTING,
    data: Type.Optional(Fields),
    ...OPERATOR_MEMBERS,
  }),
  output: Type.Union([BulkChange, Preview]),
  http: asBulkChange('/v1/collections/{name}/update-many'),
  run: (scope, { name, filter, all, max_documents, dry_run, wait, ...change }) => {
    checkFields(change.data ?? {})
    if (readOperators(change).length === 0)
      throw bodyProblem(
        '/data',
        'is empty',
        'The request names no change: send `data`, or an operator such as `set` or `inc`.',
      )
    return begin(scope, 'update', { name, filter, all, max_documents, dry_run, wait }, change)
  },
})

export const deleteMany = workspaceOperation({
  name: 'collection.delete_many',
  summary:
    'Delete all documents that match a filter, in batches; the reply is the bulk change, which a worker makes',
  roles: ROLES,
  ...AREA,
  input: Input(SELECTING),
  output: Type.Union([BulkChange, Preview]),
  http: asBulkChange('/v1/collections/{name}/delete-many'),
  run: (scope, selecting) => begin(scope, 'delete', selecting),
})

interface Selecting {
  readonly name: string
  readonly filter: Fields
  readonly all?: boolean | undefined
  readonly max_documents?: number | undefined
  readonly dry_run?: boolean | undefined
  readonly wait?: number | undefined
}

async function begin(
  scope: WorkspaceScope,
  verb: BulkChange['verb'],
  { name, filter, all = false, max_documents: max, dry_run = false, wait = 0 }: Selecting,
  change: Omit<BulkRequest, 'filter'> = {},
): Promise<BulkChange | Static<typeof Preview>> {
  if (Object.keys(filter).length === 0 && !all)
    throw bodyProblem('/filter', 'is empty', 'filter is empty. For all documents, send `"all": true`.')
  const id = scope.newId('bulk')
  if (dry_run) return { dry_run: true, ...(await count(scope, { name, verb, filter, isCounted: true })) }
  // An earlier attempt of the request has counted, and may have changed what matched.
  if ((await findRecord(scope, name, id)) === undefined) {
    const { matched } = await count(scope, { name, verb, filter, isCounted: max !== undefined })
    if (max !== undefined && matched > max) throw tooMany(matched)
    await record(scope, { id, name, verb, max, request: { filter, ...change } })
  }
  // The reconciler starts a recorded bulk change that Temporal did not accept.
  await startBulkChange(scope, id).catch((error: unknown) => {
    if (!isUnavailable(error)) throw error
    scope.logError(error, 'bulk change not started yet')
  })
  if (wait > 0) await workflowsOf(scope).ended(workflowOf(scope, id), wait * 1_000)
  return readRecord(scope, name, id)
}

const tooMany = (matched: number) =>
  new Problem('too_many_matches', {
    detail: `${matched} documents match, which is more than \`max_documents\`. Nothing was changed.`,
    members: { matched },
  })

/** @throws Problem `state_conflict` if runs and bulk changes that start one another are too deep */
function triggerOf(scope: WorkspaceScope): FunctionTrigger {
  const trigger = callTrigger(scope)
  const { chainDepth } = scope.actor
  if (chainDepth === undefined) return trigger
  const detail = `${SHARED_LIMITS.chainDepthMax} runs and bulk changes have started one another, which is the maximum. Nothing was changed.`
  return { ...trigger, chain_depth: nextChainDepth(chainDepth, detail) }
}

const SAMPLE = 5

/** Also checks filter and rights before anything is recorded. */
async function count(
  scope: WorkspaceScope,
  {
    name,
    verb,
    filter,
    isCounted,
  }: {
    readonly name: string
    readonly verb: BulkChange['verb']
    readonly filter: Fields
    readonly isCounted: boolean
  },
): Promise<Omit<Static<typeof Preview>, 'dry_run'>> {
  const query = { order: BY_ID, limit: SAMPLE, selected: [] }
  const counted = isCounted ? { ...query, count: 'exact' as const } : query
  const reading = { name, rights: BULK_RIGHTS[verb], filter: readBodyFilter(filter, { joins: true }) }
  return withRelated(scope, reading, async (collection, inside, bound) => {
    const typed = applyDeclaration({ ...counted, filter: bound }, collection.declared)
    if (!isCounted) return { matched: 0, sample: [] }
    const read = async () => ({
      ...(await collection.store.list(inside, collection, typed)),
      cascades: verb === 'delete' ? await countTakenAlong(inside, collection, typed.filter) : undefined,
    })
    const { rows, total = 0, cascades } = await inLine(inside, collection, typed, read)
    return {
      matched: total,
      ...(cascades !== undefined && { cascades }),
      sample: rows.map((row) => row.id),
    }
  })
}

/** Rules may hide documents that a deletion takes along, so users learn nothing of their number. */
const countTakenAlong = async (scope: WorkspaceScope, collection: Collection, filter: Filter) =>
  isPublicRole(scope.actor.role) || collection.store.kind === 'mongodb'
    ? undefined
    : countCascades(scope, collection, filter)

/**
 * Those of users count for each user alone: they can keep neither others nor the keys of the workspace from theirs.
 * @throws Problem `state_conflict` if too many of the caller are under way, or it would be too deep in a chain
 */
async function record(
  scope: WorkspaceScope,
  {
    id,
    name,
    verb,
    max = null,
    request,
  }: {
    readonly id: string
    readonly name: string
    readonly verb: string
    readonly max: number | null | undefined
    readonly request: BulkRequest
  },
): Promise<void> {
  const { user: ofUser, service: ofKeys } = COLLECTION_LIMITS.bulkChangesOpenMax
  const openMax = scope.actor.role === 'user' ? ofUser : ofKeys
  const [caller, trigger] = [JSON.stringify(callerOf(scope)), JSON.stringify(triggerOf(scope))]
  const underWay = sql`select count(*) from bulk_changes
    where ended_at is null and owner is not distinct from tenon.caller() ->> 'id'`
  const recorded = await scope.rows(sql`
    insert into bulk_changes (id, collection, verb, request, caller, trigger, max_documents)
    select ${id}, ${name}, ${verb}, ${JSON.stringify(request)}::jsonb, ${caller}::jsonb, ${trigger}::jsonb,
      ${max}::integer
    where (${underWay}) < ${openMax}
    on conflict do nothing returning id`)
  // Another attempt of the request may have recorded it meanwhile.
  if (recorded.length === 0 && (await findRecord(scope, name, id)) === undefined)
    throw new Problem('state_conflict', {
      detail: `${openMax} bulk changes are under way, which is the maximum. Send the request again when one of them has ended.`,
    })
}

const IN_COLLECTION = { name: CollectionName, id: Ref('bulk change') }
const ONE = '/v1/collections/{name}/bulk-changes/{id}'

const findRecord = (scope: WorkspaceScope, name: string, id: string) =>
  scope.row<BulkChange>(sql`select ${COLUMNS} from bulk_changes where id = ${id} and collection = ${name}`)

const readRecord = (scope: WorkspaceScope, name: string, id: string): Promise<BulkChange> =>
  findRow(
    scope,
    'bulk change',
    sql`select ${COLUMNS} from bulk_changes where id = ${id} and collection = ${name}`,
  )

export const getBulkChange = workspaceOperation({
  name: 'bulk_change.get',
  summary: 'Read a bulk change; users read their own',
  roles: ROLES,
  ...AREA,
  input: Input(IN_COLLECTION),
  output: BulkChange,
  http: { method: 'GET', path: ONE },
  run: (scope, { name, id }) => readRecord(scope, name, id),
})

export const listBulkChanges = workspaceOperation({
  name: 'bulk_change.list',
  summary: 'List the bulk changes of a collection, newest first; users see their own',
  roles: ROLES,
  ...AREA,
  input: Input({ ...PageInput, name: CollectionName }),
  output: PageOf(BulkChange),
  http: { method: 'GET', path: '/v1/collections/{name}/bulk-changes' },
  run: (scope, { name, ...page }) =>
    listPage<BulkChange>(scope, page, sql`select ${COLUMNS} from bulk_changes where collection = ${name}`),
})

export const cancelBulkChange = workspaceOperation({
  name: 'bulk_change.cancel',
  summary: 'Cancel a bulk change; documents that are changed already stay changed',
  roles: ROLES,
  ...AREA,
  input: Input(IN_COLLECTION),
  output: BulkChange,
  http: { method: 'POST', path: `${ONE}/cancel` },
  run: async (scope, { name, id }) => {
    await scope.batch(sql`
      update bulk_changes set status = 'cancelled', ended_at = now()
      where id = ${id} and collection = ${name} and ended_at is null`)
    return readRecord(scope, name, id)
  },
})
