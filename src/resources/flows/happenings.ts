/** What has happened in an execution, as it is told to those who watch: CloudEvents by the names of OWS 1.0. */

import { lifecycleType } from '../../../flows-dsl/lifecycle.ts'
import { frame } from '../../core/bytes.ts'
import { LIMITS } from '../../core/limits.ts'
import type { RunEventUpdate } from '../../core/run.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type CloudEvent, cloudEvent, sourceOf } from '../../platform/events/events.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

interface Happening {
  /** Its number; of what has none, a text that no other event of the execution has. */
  readonly seq: number | string
  readonly at: string
  readonly what: RunEventUpdate['what']
  readonly detail?: object | null
  /** Of the step, where it is one of a step. */
  readonly step?: object | null
}

/** An event as it is sent: written once, however many watch. */
interface Entry {
  readonly seq: number
  readonly frame: string
}

/**
 * The next events after one, the oldest first. What does not change of a step stands with the step, which is looked up for
 * each: a join may be planned while the tables are small, and would go through all steps for each event.
 */
export async function readEvents(scope: WorkspaceScope, id: string, after: number): Promise<Entry[]> {
  const rows = await scope.rows<Happening & { seq: number }>(sql`
    select e.seq, e.at, e.what, e.detail, (
      select jsonb_build_object('task', s.pointer, 'iteration', s.iteration, 'seq', s.seq, 'name', s.name,
        'kind', s.kind, 'summary', s.summary)
      from execution_steps s where s.execution_id = e.execution_id and s.seq = e.step) as step
    from execution_events e
    where e.execution_id = ${id} and e.seq > ${after} order by e.seq limit ${LIMITS.executionEventsReadAtOnce}`)
  const of = { ref: scope.ref, id }
  return rows.map((row) => ({ seq: row.seq, frame: frame({ id: String(row.seq), data: eventOf(of, row) }) }))
}

/** What OWS has a verb of its own for; all else is a change of status. */
const VERBS = {
  run: new Set<string>(['started', 'suspended', 'resumed', 'completed', 'faulted', 'cancelled']),
  step: new Set<string>(['started', 'retried', 'completed', 'faulted', 'cancelled']),
}
/** Whoever begins, begins again or goes on is running. */
const RUNNING = new Set<string>(['started', 'retried', 'resumed'])

export function eventOf(of: { ref: WorkspaceRef; id: string }, happening: Happening): CloudEvent {
  const { seq, at, what, detail, step } = happening
  const subject = step ? 'step' : 'run'
  const verb = step && what === 'held' ? 'suspended' : VERBS[subject].has(what) ? what : 'status-changed'
  return cloudEvent({
    id: String(seq),
    source: `${sourceOf(of.ref.workspaceId)}/executions/${of.id}`,
    topic: lifecycleType(step ? 'task' : 'workflow', verb),
    time: at,
    data: { execution: of.id, status: RUNNING.has(what) ? 'running' : what, ...step, ...detail },
  })
}
