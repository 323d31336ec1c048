/** Changes rows together with their state in Temporal, such as schedules, so that a crash in between loses nothing. */

import type { RegistrationInput } from '../../core/execution.ts'
import { QUEUES } from '../../core/work.ts'
import type { TenantWorkflows } from '../../infra/temporal/temporal.ts'

/** Longer than the change takes. */
const REPAIR_AFTER_MS = 10_000

interface Registration {
  readonly workflows: TenantWorkflows
  /** A new id, of the workflow that repairs. */
  readonly uuid: string
  /** The id of the flow or the function. */
  readonly subject: string
  readonly input: RegistrationInput
  /** One line for operators. */
  readonly summary: string
  /** Brings Temporal to what the rows say; idempotent. The workflow does the same. */
  sync(): Promise<void>
  /** Logs an error of `sync`, which the workflow repeats. */
  defer(error: unknown): void
}

/**
 * Changes rows, then Temporal. A delayed workflow that repairs the latter is started first.
 * @throws Problem `dependency_unavailable` without Temporal: then nothing was changed
 */
export async function changeRegistered<T>(
  { workflows, uuid, subject, input, summary, sync, defer }: Registration,
  change: () => Promise<T>,
): Promise<T> {
  await workflows.start({
    definition: 'registration',
    queue: QUEUES.provisioning,
    subject,
    uuid,
    input,
    summary,
    attributes: { FlowId: subject },
    delayMs: REPAIR_AFTER_MS,
  })
  const result = await change()
  // The change is committed; if this fails, the delayed workflow repeats it.
  await sync().catch(defer)
  return result
}
