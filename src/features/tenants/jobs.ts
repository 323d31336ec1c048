/** Long-running jobs (`/v1/operations`): their records. */

import Type, { type Static } from 'typebox'
import { adminOperation, Id, Input, OptionalTime, Ref, Time } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, TENANT_ADMINS } from '../../core/policy.ts'
import { notFound } from '../../core/problem.ts'
import { isTenantId, type TenantId, type TenantRef, workflowId } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { bodyProblem, findRow, listPage } from '../operation-helpers.ts'

const OperationStep = component(
  'OperationStep',
  Type.Object({
    name: Type.String(),
    state: Type.Union(
      [Type.Literal('running'), Type.Literal('waiting'), Type.Literal('succeeded'), Type.Literal('failed')],
      {
        description:
          'State of the step. A step is `waiting` after an attempt that failed: the next one follows by itself within a minute, and `code` and `detail` say why.',
      },
    ),
    code: Type.Optional(Type.String({ description: 'Code of the problem of the last attempt.' })),
    detail: Type.Optional(Type.String({ description: 'Reason why the last attempt failed.' })),
    attempts: Type.Optional(
      Type.Integer({ description: 'Attempts so far, of a step that waits or failed.' }),
    ),
  }),
  {
    name: 'bucket',
    state: 'waiting',
    code: 'dependency_unavailable',
    detail: 'The object store does not answer.',
    attempts: 2,
  },
)
export type OperationStep = Static<typeof OperationStep>

export const Job = component(
  'Operation',
  Type.Object({
    id: Id('op'),
    tenant_id: Id('ten'),
    type: Type.String(),
    target: Type.String(),
    state: Type.Union(
      ['queued', 'running', 'succeeded', 'failed', 'cancelled'].map((state) => Type.Literal(state)),
    ),
    steps: Type.Array(OperationStep),
    error: Type.Unknown(),
    result: Type.Unknown({
      description:
        'Report of a deletion: `before` and `after`, counts of what the tenant or workspace had, and `signature`, a JWS of the report. Report of an export or import: `counts` of what was written or stored so far; at the end `missing`, what has to be set by hand after an import; and of an export `archive` with its `bytes`, its `sha256` and `expires_at`, and until then `begun_at`, when its last attempt began. Null for other operations.',
    }),
    created_at: Time,
    finished_at: OptionalTime,
  }),
  {
    id: EXAMPLE_ID.operation,
    tenant_id: EXAMPLE_ID.tenant,
    type: 'workspace.create',
    target: EXAMPLE_ID.workspace,
    state: 'running',
    steps: [{ name: 'bucket', state: 'running' }],
    error: null,
    result: null,
    created_at: EXAMPLE_TIME.created,
    finished_at: null,
  },
)
export type Job = Static<typeof Job>

/** Of the table `operations`, as a {@link Job}. */
export const JOB_COLUMNS = sql`id, tenant_id, type, target, state, steps, error, result, created_at, finished_at`

export const kindOf = ({ workspaceId }: TenantRef): 'tenant' | 'workspace' =>
  workspaceId === '-' ? 'tenant' : 'workspace'

/** The workflow of a job, which belongs to the tenant as a whole. */
export const jobWorkflowId = (ref: TenantRef, uuid: string): string =>
  workflowId({ tenantId: ref.tenantId, workspaceId: '-' }, `${kindOf(ref)}-provision`, uuid)

/** The record of a job; undefined if it has none. */
export const findJob = (scope: AdminScope, id: string): Promise<Job | undefined> =>
  scope.row<Job>(sql`select ${JOB_COLUMNS} from operations where id = ${id}`)

export const getOperation = adminOperation({
  name: 'operation.get',
  summary:
    'Read an operation and its steps; admins of a workspace read those about what is inside it, such as users and indexes',
  roles: ADMINS,
  input: Input({ id: Ref('operation') }),
  output: Job,
  http: { method: 'GET', path: '/v1/operations/{id}' },
  // The rows of the tenant are one list for the role of the database, since the retention of any workspace removes old ones.
  run: (scope, { id }) => {
    const isOwn = scope.workspaceId === undefined ? sql`true` : sql`workspace_id = ${scope.workspaceId}`
    return findRow<Job>(
      scope,
      'operation',
      sql`select ${JOB_COLUMNS} from operations where id = ${id} and ${isOwn}`,
    )
  },
})

export const listOperations = adminOperation({
  name: 'operation.list',
  summary: 'List operations',
  roles: TENANT_ADMINS,
  input: Input(PageInput),
  output: PageOf(Job),
  http: { method: 'GET', path: '/v1/operations' },
  run: (scope, input) => listPage<Job>(scope, input, sql`select ${JOB_COLUMNS} from operations`),
})

/** The tenant of an admin's request: its own, or the one that an operator names. @throws Problem `not_found` for another */
export function resolveTenant(scope: AdminScope, named: string | undefined): TenantId {
  if (scope.tenantId !== undefined) {
    if (named !== undefined && named !== scope.tenantId) throw notFound('tenant')
    return scope.tenantId
  }
  if (named === undefined)
    throw bodyProblem('/tenant_id', 'is required of an operator', 'tenant_id is required of an operator.')
  if (!isTenantId(named)) throw notFound('tenant')
  return named
}
