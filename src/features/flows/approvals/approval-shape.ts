/** Approvals as the API shows them, and how they are read. */

import Type, { type Static } from 'typebox'
import { Id, OptionalTime, Time } from '../../../access/operation-builders.ts'
import { HIDDEN_PAYLOADS, payload } from '../../../access/payload-schemas.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'

export const APPROVAL_STATUSES = ['open', 'approved', 'rejected', 'expired', 'cancelled'] as const

export const Approval = component(
  'Approval',
  Type.Object({
    id: Id('apr'),
    execution_id: Id('run'),
    flow: Type.String({ description: 'Name of the flow.' }),
    step: Type.String({ description: 'Name of the task.' }),
    title: Type.Optional(Type.Union([Type.String(), Type.Null()], payload())),
    form: Type.Unknown({ description: 'JSON Schema of `form` in a decision. `null`: no form.' }),
    data: Type.Optional(
      Type.Unknown({
        ...payload(),
        description:
          'Data to decide on, with secrets masked. `null`: they are larger than 64 KiB, or were changed by hand.',
      }),
    ),
    ...HIDDEN_PAYLOADS,
    approvers: Type.Array(Type.String(), {
      description: 'Subjects, e-mail addresses, `role:…` and `group:…` that may decide.',
    }),
    excluded: Type.Array(Type.String(), {
      description:
        'Subjects that may not decide, because they started the execution or changed its data (`fourEyes`).',
    }),
    quorum: Type.Integer({ description: 'Number of approvals that are required.' }),
    status: Type.Union(APPROVAL_STATUSES.map((status) => Type.Literal(status))),
    reopened: Type.Boolean({
      description:
        'True if the approval is requested again because the data were changed by hand after it had been given.',
    }),
    decisions: Type.Array(Type.Unknown(payload('by', 'as', 'created_by', 'approved', 'at')), {
      description:
        'Decisions, each `{by, as?, created_by?, approved, at, form?, comment?}`; `created_by` is the subject that created the deciding account, key or client.',
    }),
    asked_at: Time,
    deadline_at: OptionalTime,
    ended_at: OptionalTime,
  }),
  {
    id: EXAMPLE_ID.approval,
    execution_id: EXAMPLE_ID.execution,
    flow: 'confirm',
    step: 'manager',
    title: 'Refund of a booking',
    form: null,
    data: { euros: 40 },
    approvers: ['group:board'],
    excluded: [],
    quorum: 1,
    status: 'open',
    reopened: false,
    decisions: [],
    asked_at: EXAMPLE_TIME.created,
    deadline_at: EXAMPLE_TIME.later,
    ended_at: null,
  },
)
export type Approval = Static<typeof Approval>

export const APPROVAL_COLUMNS = sql`a.id, a.execution_id, f.name as flow, a.name as step, a.title, a.form, a.data,
  to_json(a.approvers) as approvers, to_json(a.excluded) as excluded, a.quorum, a.status, a.reopened, a.decisions,
  a.asked_at, a.deadline_at, a.ended_at`
export const joinExecutions = (approvals: Sql): Sql =>
  sql`${approvals} a join executions e on e.id = a.execution_id join flows f on f.id = e.flow_id`
export const APPROVAL_JOIN = joinExecutions(sql`approvals`)

/** The open approvals of an execution. */
export const openApprovals = (executionId: string): Sql => sql`
  select ${APPROVAL_COLUMNS} from ${APPROVAL_JOIN} where a.execution_id = ${executionId} and a.status = 'open' order by a.asked_at, a.id`
