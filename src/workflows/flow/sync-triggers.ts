/** Bringing what triggers have outside the database to their rows, as a durable workflow: however long that takes. */

import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import type { RegistrationInput } from '../../core/run.ts'
import { QUEUES } from '../../core/work.ts'

const { registerTriggers } = proxyActivities<Activities>({
  taskQueue: QUEUES.provisioning,
  startToCloseTimeout: '2m',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

export async function registration(input: RegistrationInput): Promise<void> {
  await registerTriggers(input)
}
