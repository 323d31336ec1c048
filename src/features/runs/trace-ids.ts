/** The ids of request and trace in the records of executions and runs. */

import Type from 'typebox'
import { sql } from '../../infra/postgres/sql.ts'

export const RequestId = Type.Union([Type.String(), Type.Null()], {
  description:
    'Id of the request that it goes back to (`x-request-id`), also by way of others that started one another. What an event or a schedule starts has an id of its own.',
})

export const TraceId = Type.Union([Type.String(), Type.Null()], {
  description: 'Id of its trace (W3C Trace Context): that of the `traceparent` of the request.',
})

/** Columns `request_id` and `trace_id` of a row with a column `trace`; null for a row without. */
export const TRACE_IDS = sql`split_part(trace, ' ', 1) as request_id, substr(split_part(trace, ' ', 2), 4, 32) as trace_id`
