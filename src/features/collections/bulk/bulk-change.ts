/** Bulk changes: their shape, and the statements of their records. */

import Type, { type Static } from 'typebox'
import { Id, OptionalTime, Time } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { uuidOf } from '../../../core/ids.ts'
import type { Problem } from '../../../core/problem.ts'
import { workflowId } from '../../../core/tenant.ts'
import { readTrace } from '../../../core/trace.ts'
import { QUEUES } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { inTrace } from '../../../infra/trace-context.ts'
import { CollectionName, type Fields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { readOperators } from '../operators.ts'
import type { Right } from '../rules/access.ts'

const STATUSES = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const

const Failure = Type.Object({ code: Type.String(), detail: Type.String() })

export const BulkChange = component(
  'BulkChange',
  Type.Object({
    id: Id('bulk'),
    collection: CollectionName,
    verb: Type.Union([Type.Literal('update'), Type.Literal('delete')]),
    status: Type.Union(
      STATUSES.map((one) => Type.Literal(one)),
      {
        description:
          'Status of the bulk change. `completed`: each document that matched was changed, or is counted in `failed`.',
      },
    ),
    matched: Type.Integer({ description: 'Number of matching documents that were processed so far.' }),
    changed: Type.Integer({
      description:
        'Number of documents that were changed or deleted. An update that changes no value is not counted.',
    }),
    failed: Type.Integer({ description: 'Number of documents that could not be changed.' }),
    failures: Type.Array(Type.Object({ id: Type.String(), ...Failure.properties }), {
      description: `Failures, of which the first ${COLLECTION_LIMITS.bulkFailuresReturnedMax} are listed.`,
    }),
    error: Type.Union([Failure, Type.Null()], {
      description: 'Reason why the bulk change has failed as a whole.',
    }),
    created_at: Time,
    ended_at: OptionalTime,
  }),
  {
    id: EXAMPLE_ID.bulkChange,
    collection: 'bookings',
    verb: 'update',
    status: 'completed',
    matched: 120,
    changed: 118,
    failed: 2,
    failures: [{ id: EXAMPLE_ID.booking, code: 'schema_violation', detail: 'ends_at is required' }],
    error: null,
    created_at: EXAMPLE_TIME.created,
    ended_at: EXAMPLE_TIME.ended,
  },
)
export type BulkChange = Static<typeof BulkChange>

/** Of the table `bulk_changes`, as a {@link BulkChange}. */
export const COLUMNS = sql`id, collection, verb, status, matched::integer, changed::integer, failed::integer, failures, error,
  created_at, ended_at`

/** The rights to find documents, and to change them. */
export const BULK_RIGHTS: Readonly<Record<BulkChange['verb'], readonly Right[]>> = {
  update: ['read', 'update'],
  delete: ['read', 'delete'],
}

/** The documents to change, and how: fields to set, and operators. */
export type BulkRequest = Parameters<typeof readOperators>[0] & {
  /** A filter in JSON. */
  readonly filter: Fields
}

/** Workflow ids name it in place of a flow or a function. */
const SUBJECT = 'bulk-change'

export const workflowOf = ({ ref }: Pick<WorkspaceScope, 'ref'>, id: string): string =>
  workflowId(ref, SUBJECT, uuidOf(id))

/** The id of the workflow of a record `r`. */
export const OWNER: Sql = sql`${SUBJECT}::text`

/** Starts the workflow of a recorded bulk change. Idempotent. @throws Problem `dependency_unavailable` */
export async function startBulkChange(scope: WorkspaceScope, id: string): Promise<void> {
  const row = await scope.row<{ collection: string; verb: string; trace: string | null }>(
    sql`select collection, verb, trace from bulk_changes where id = ${id}`,
  )
  if (row === undefined) return
  const start = () =>
    workflowsOf(scope).start({
      ...{ definition: 'bulkChange', queue: QUEUES.provisioning, subject: SUBJECT, uuid: uuidOf(id) },
      input: { bulk_id: id },
      summary: `${row.verb} documents of ${row.collection}`,
    })
  await inTrace(readTrace(row.trace), start)
}

/** Ends a bulk change that has not ended. Idempotent. @returns its record, if it had not ended */
export const endAsFailed = (
  id: string,
  { code, detail }: { readonly code: string; readonly detail: string },
): Sql => sql`
  update bulk_changes set status = 'failed', ended_at = now(), error = ${JSON.stringify({ code, detail })}::jsonb
  where id = ${id} and ended_at is null`

/** How many documents a step has looked at, and how it ended for them. */
export interface Step {
  /** The last of them. */
  readonly lastId: string
  readonly matched: number
  readonly changed: number
  readonly failures: readonly { readonly id: string; readonly problem: Problem }[]
}

/**
 * Records a step, in the transaction of its changes. It returns a row only if the change has not ended, and stands where this attempt
 * has found it: of two workers, one makes a step.
 */
export function recordStep(
  id: string,
  after: string | null,
  { lastId, matched, changed, failures }: Step,
): Sql {
  const shown = failures.map(({ id: document, problem }) => ({
    ...{ id: document, code: problem.code },
    detail: problem.message.slice(0, COLLECTION_LIMITS.importMessageCharsMax),
  }))
  return sql`
    update bulk_changes set status = 'running', last_id = ${lastId}, begun = null, matched = matched + ${matched}::bigint,
      changed = changed + ${changed}::bigint, failed = failed + ${failures.length}::bigint,
      failures = (select coalesce(jsonb_agg(f order by n), '[]') from
        jsonb_array_elements(failures || ${JSON.stringify(shown)}::jsonb) with ordinality as e (f, n)
        where n <= ${COLLECTION_LIMITS.bulkFailuresReturnedMax}::bigint)
    where id = ${id} and ended_at is null and last_id is not distinct from ${after}::uuid returning id`
}
