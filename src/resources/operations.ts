/** Long work that can be asked after: one record per provisioning, with its steps. */

import Type, { type Static } from 'typebox'
import { PageInput, PageOf, pageBounds, pageFrom } from '../core/page.ts'
import { TENANT_ADMINS } from '../core/policy.ts'
import { notFound } from '../core/problem.ts'
import { sql } from '../platform/pg/sql.ts'
import { Id, Input, OptionalTime, onStructure, Ref, Time } from './kinds.ts'

const OperationStep = Type.Object({
  name: Type.String(),
  state: Type.Union(['running', 'succeeded', 'failed'].map((state) => Type.Literal(state))),
  detail: Type.Optional(Type.String()),
})

export const OperationRecord = Type.Object({
  id: Id('op'),
  tenant_id: Id('ten'),
  type: Type.String(),
  target: Type.String(),
  state: Type.Union(
    ['queued', 'running', 'succeeded', 'failed', 'cancelled'].map((state) => Type.Literal(state)),
  ),
  steps: Type.Array(OperationStep),
  error: Type.Unknown(),
  created_at: Time,
  finished_at: OptionalTime,
})
export type OperationRecord = Static<typeof OperationRecord>

const COLUMNS = sql`id, tenant_id, type, target, state, steps, error, created_at, finished_at`

export const getOperation = onStructure({
  name: 'operation.get',
  summary: 'Read an operation and its steps',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('operation') }),
  output: OperationRecord,
  http: { method: 'GET', path: '/v1/operations/{id}' },
  run: async (scope, { id }) => {
    const found = await scope.row<OperationRecord>(sql`select ${COLUMNS} from operations where id = ${id}`)
    if (found === undefined) throw notFound('operation')
    return found
  },
})

export const listOperations = onStructure({
  name: 'operation.list',
  summary: 'List operations',
  roles: TENANT_ADMINS,
  input: Input(PageInput),
  output: PageOf(OperationRecord),
  http: { method: 'GET', path: '/v1/operations' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    return pageFrom(
      input,
      await scope.rows<OperationRecord>(
        sql`select ${COLUMNS} from operations where id > ${after} order by id limit ${limit}`,
      ),
    )
  },
})
