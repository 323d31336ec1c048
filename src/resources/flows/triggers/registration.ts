/** What triggers have outside the database follows their rows: at once, and by a durable workflow should that fail. */

import type { RegistrationInput } from '../../../core/run.ts'
import { QUEUES } from '../../../core/work.ts'
import { runsOf } from '../../../platform/capabilities.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { DECLARABLE } from './kinds.ts'
import { triggersOf } from './rows.ts'
import type { Trigger } from './trigger.ts'

/** Long enough for the change to be written; until then a crash leaves the outside as it was. */
const REPAIR_AFTER_MS = 10_000

/**
 * Changes the triggers of a flow, and then the outside. The workflow that will look after the latter is started first:
 * whoever is killed anywhere in between leaves it to that.
 * @param isNeeded whether there is anything outside before or after the change
 * @throws Problem `dependency_unavailable` without Temporal: then nothing was changed
 */
export async function changeTriggers<T>(
  scope: WorkspaceScope,
  flowId: string,
  isNeeded: (before: readonly Trigger[]) => boolean,
  change: () => Promise<T>,
): Promise<T> {
  const before = await triggersOf(scope, flowId)
  if (!isNeeded(before)) return change()
  const input = { flow_id: flowId, before: before.map(({ id, kind }) => ({ id, kind })) }
  await startRepair(scope, input)
  const result = await change()
  // What was changed stays so; the workflow does what could not be done here.
  await register(scope, input).catch((error: unknown) => scope.report(error, 'triggers are registered later'))
  return result
}

/** Whether triggers of these kinds have anything outside the database. */
export const isOutside = (triggers: readonly Pick<Trigger, 'kind'>[]): boolean =>
  triggers.some(({ kind }) => outsideOf(kind) !== undefined)

async function startRepair(scope: WorkspaceScope, input: RegistrationInput): Promise<void> {
  await runsOf(scope).start({
    type: 'registration',
    queue: QUEUES.provisioning,
    subject: input.flow_id,
    uuid: scope.uuid(),
    input,
    summary: 'Triggers of a flow are registered',
    attributes: { FlowId: input.flow_id },
    delayMs: REPAIR_AFTER_MS,
  })
}

/**
 * Brings what is outside to what the rows say. Where they have changed meanwhile, once more: of several at once, the last
 * to end has seen the last change. Idempotent.
 */
export async function register(scope: WorkspaceScope, { flow_id, before }: RegistrationInput): Promise<void> {
  const known = new Map(before.map(({ id, kind }) => [id, kind]))
  let done = ''
  for (;;) {
    const rows = await triggersOf(scope, flow_id)
    const seen = JSON.stringify(rows)
    if (seen === done) return
    for (const [id, kind] of known) {
      if (!rows.some((row) => row.id === id)) await outsideOf(kind)?.unregister(scope, { id, flow_id })
    }
    for (const row of rows) {
      await outsideOf(row.kind)?.register(scope, row)
      known.set(row.id, row.kind)
    }
    done = seen
  }
}

function outsideOf(kind: Trigger['kind']) {
  return DECLARABLE.find((one) => one.kind === kind)?.outside
}
