/** The setting with which a workspace refuses operators access to its data: its column, and the refusal. */

import { Problem } from '../core/problem.ts'
import { sql } from '../infra/postgres/sql.ts'

/** True if the workspace, whose row of `services` is joined as `s`, gives operators no data token. */
export const REFUSES_OPERATORS_COLUMN = sql`coalesce(s.operators ->> 'data', 'allowed') = 'refused' as "refusesOperators"`

export const operatorsRefused = (): Problem =>
  new Problem('forbidden', {
    detail: 'The workspace refuses operators access to its data: its setting operators.data is "refused".',
    hint: 'Ask an admin of the workspace or of its tenant, who can read the data, or change the setting.',
  })
