/** Steps of an execution: pages of them, and one step with its input, arguments and output. */

import Type, { type Static } from 'typebox'
import { Id, Input, OptionalTime, Ref, Time } from '../../../access/operation-builders.ts'
import { reasonToSee, showPayloads } from '../../../access/payload-access.ts'
import { FLOW_ERROR, HIDDEN_PAYLOADS, payload } from '../../../access/payload-schemas.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import type { StepData, ValueLocation } from '../../../core/execution.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../../core/page.ts'
import { VIEWERS } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { previewOperation } from '../../operation-helpers.ts'
import { FLOWS, Ws } from '../definitions.ts'

const STEP_STATUSES = ['running', 'completed', 'faulted', 'skipped', 'cancelled'] as const

const StepId = Type.String({
  pattern: '^[0-9]{1,9}$',
  description: 'Number of the step within its execution, in the order in which steps started.',
})

const Step = component(
  'ExecutionStep',
  Type.Object({
    id: StepId,
    name: Type.String(),
    kind: Type.String(),
    task: Type.String({ description: 'JSON pointer of the task in the definition.' }),
    iteration: Type.Integer({
      description: 'Number of earlier entries to the task. Commands name the step `task#iteration`.',
    }),
    path: Type.Union([Type.String(), Type.Null()], {
      description: 'Position of the step, the same in every execution that takes the same route.',
    }),
    summary: Type.String(),
    status: Type.Enum(STEP_STATUSES),
    attempts: Type.Integer(),
    reused: Type.Boolean({
      description: 'True if the result comes from the execution that this one repeats.',
    }),
    execution_id: Type.Optional(Id('run')),
    started_at: Time,
    ended_at: OptionalTime,
    error: Type.Optional(Type.Unknown(FLOW_ERROR)),
    ...HIDDEN_PAYLOADS,
  }),
  {
    id: '1',
    name: 'greet',
    kind: 'set',
    task: '/do/0/greet',
    iteration: 0,
    path: '/do/0/greet',
    summary: 'greet',
    status: 'completed',
    attempts: 1,
    reused: false,
    started_at: EXAMPLE_TIME.created,
    ended_at: EXAMPLE_TIME.ended,
  },
)
type Step = Static<typeof Step>

const StepWithData = component(
  'ExecutionStepWithData',
  Type.Interface([Step], {
    input: Type.Optional(
      Type.Unknown({ description: 'Input of the task, after `input.from`.', ...payload() }),
    ),
    arguments: Type.Optional(
      Type.Unknown({
        ...payload(),
        description: 'Arguments that the task passed to its environment, such as the request of a call.',
      }),
    ),
    output: Type.Optional(
      Type.Unknown({ description: 'Output of the task, after `output.as`.', ...payload() }),
    ),
    truncated: Type.Array(Type.Enum(['input', 'arguments', 'output']), {
      description:
        'Values that are shortened to about 4,096 characters: lists and objects lack their last members, strings end in `…`.',
    }),
  }),
  { ...exampleOf(Step), input: { booking: EXAMPLE_ID.booking }, output: { message: 'hello' }, truncated: [] },
)
type StepWithData = Static<typeof StepWithData>

/** The columns of a step. */
const STEP = sql`seq::text as id, name, kind, pointer as task, iteration, path, summary, status, attempt as attempts, reused,
  child as execution_id, started_at, ended_at, error`

export const listSteps = previewOperation({
  name: 'execution_step.list',
  roles: VIEWERS,
  summary: 'List the steps of an execution, in the order in which they started',
  input: Input({
    ...PageInput,
    ws: Ws,
    id: Ref('execution'),
    status: Type.Optional(Type.Enum(STEP_STATUSES)),
    task: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2_000,
        description: 'Task whose steps are listed: its name or pointer.',
      }),
    ),
    iteration: Type.Optional(Type.Integer({ minimum: 0, maximum: 999_999_999 })),
  }),
  output: PageOf(Step),
  http: { method: 'GET', path: `${FLOWS}/executions/{id}/steps` },
  run: async (scope, { id, status, task, iteration, ...page }) => {
    const { after, limit } = pageBounds(page)
    if (!/^[0-9]{0,9}$/.test(after)) throw new Problem('cursor_invalid')
    const [[execution] = [], steps = []] = await scope.batch(
      sql`select ${STARTER} from executions where id = ${id}`,
      sql`select ${STEP} from execution_steps
        where execution_id = ${id} and seq > ${after === '' ? -1 : Number(after)} ${ofTask(task)}
          ${status === undefined ? sql`` : sql`and status = ${status}`}
          ${iteration === undefined ? sql`` : sql`and iteration = ${iteration}`}
        order by seq limit ${limit}`,
    )
    if (execution === undefined) throw notFound('execution')
    return pageFrom(
      page,
      (steps as StepRow[]).map((row) => showIfOwn(scope, execution, shown(row))),
    )
  },
})

/** The columns of an execution that say whose payloads its steps have. */
const STARTER = sql`started_by, rerun_of`

/** Shows the payloads of a step to whoever has started its execution. */
const showIfOwn = <T extends object>({ actor }: WorkspaceScope, execution: object, step: T): T =>
  reasonToSee(actor, execution) === 'started' ? showPayloads(step, 'own') : step

function ofTask(task: string | undefined): Sql {
  if (task === undefined) return sql``
  return task.startsWith('/') ? sql`and pointer = ${task}` : sql`and name = ${task}`
}

type StepRow = Omit<Step, 'error' | 'execution_id'> & {
  readonly error: unknown
  readonly execution_id: string | null
}

function shown<Row extends StepRow>({ error, execution_id, ...step }: Row) {
  return {
    ...step,
    ...(error !== null && { error }),
    ...(execution_id !== null && { execution_id }),
  }
}

export const getStep = previewOperation({
  name: 'execution_step.get',
  roles: VIEWERS,
  summary: 'Read a step with its input, arguments and output; secrets are masked',
  input: Input({ ws: Ws, id: Ref('execution'), step: StepId }),
  output: StepWithData,
  http: { method: 'GET', path: `${FLOWS}/executions/{id}/steps/{step}` },
  run: (scope, { id, step }) => readStep(scope, id, Number(step)),
})

/** @throws Problem `not_found` */
async function readStep(scope: WorkspaceScope, id: string, seq: number): Promise<StepWithData> {
  const [[execution] = [], [row] = []] = (await scope.batch(
    sql`select ${STARTER} from executions where id = ${id}`,
    sql`select ${STEP}, data from execution_steps where execution_id = ${id} and seq = ${seq}`,
  )) as unknown as [object[]?, (StepRow & { data: StepData | null })[]?]
  if (execution === undefined || row === undefined) throw notFound('step')
  const { data, ...step } = row
  return showIfOwn(scope, execution, { ...shown(step), ...(await resolveData(scope, id, data ?? {})) })
}

interface StoredValues {
  readonly seq: number
  readonly data: StepData | null
  readonly result: Json
}

/** Reads values that are recorded with other steps, or as a result. */
async function resolveData(
  scope: WorkspaceScope,
  id: string,
  data: StepData,
): Promise<Pick<StepWithData, 'input' | 'arguments' | 'output' | 'truncated'>> {
  const names = ['input', 'arguments', 'output'] as const
  const seqs = names.flatMap((name) => data[`${name}_at`]?.[0] ?? []).map(String)
  const rows =
    seqs.length === 0
      ? []
      : await scope.rows<StoredValues>(
          sql`select seq, data, result from execution_steps
            where execution_id = ${id} and seq = any(${textArray(seqs)}::integer[])`,
        )
  const stored = new Map(rows.map((row) => [row.seq, row]))
  const values: [string, unknown][] = []
  const truncated: (typeof names)[number][] = []
  for (const name of names) {
    const at = data[`${name}_at`]
    const found =
      at === undefined ? { value: data[name], isCut: data.truncated?.includes(name) } : valueAt(stored, at)
    if (found.value !== undefined) values.push([name, found.value])
    if (found.isCut) truncated.push(name)
  }
  return { ...Object.fromEntries(values), truncated }
}

function valueAt(
  stored: ReadonlyMap<number, StoredValues>,
  [seq, name]: ValueLocation,
): { readonly value: unknown; readonly isCut?: boolean | undefined } {
  const row = stored.get(seq)
  if (name === 'result') return { value: row?.result }
  return { value: row?.data?.[name], isCut: row?.data?.truncated?.includes(name) }
}
