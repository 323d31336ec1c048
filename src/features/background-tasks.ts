/** The background tasks of all features, which one worker runs (background/task-runner.ts). */

import type { ChainSigner } from '../access/audit/chain-signer.ts'
import type { Log } from '../infra/log.ts'
import type { Mailer } from '../infra/mail/mail.ts'
import { expiredArchives } from './archives/expired-archives.ts'
import { type BackgroundTask, backgroundTask } from './background/background-task.ts'
import type { TenantServices } from './background/tenant-task.ts'
import { expiredDocuments } from './collections/expiry/expired-documents.ts'
import { approvalMails } from './flows/approvals/approval-mailer.ts'
import { unmetExpectations } from './flows/executions/expectations.ts'
import { expiredResults } from './mcp-servers/calls/kept-results.ts'
import { objectRemovals } from './objects/removals.ts'
import { chainRetention } from './retention/chain-retention.ts'
import { workspaceRetention } from './retention/workspace-retention.ts'
import { RUN_KINDS } from './run-kinds.ts'
import { openRuns } from './runs/open-runs.ts'
import { slotQueues, unstartedSlots } from './runs/slot-tasks.ts'
import { unregisteredSchedules } from './runs/triggers/unregistered-schedules.ts'
import { dueJobs } from './tenants/due-jobs.ts'
import { purgeLeftovers } from './tenants/purge/leftovers.ts'
import { driftChecks } from './tenants/resources/drift-checks.ts'
import { TRIGGER_TARGETS } from './trigger-targets.ts'

interface TaskServices {
  /** A task for mails exists if it is configured. */
  readonly mailer: Mailer
  readonly chainSigner: ChainSigner
  readonly log: Log
}

export const createBackgroundTasks = (
  { mailer, chainSigner, log }: TaskServices,
  openTenant: TenantServices['openTenant'],
): readonly BackgroundTask[] => [
  ...RUN_KINDS.flatMap((kind) => [
    backgroundTask(openRuns(kind)),
    backgroundTask(unstartedSlots(kind)),
    backgroundTask(slotQueues(kind)),
  ]),
  backgroundTask(unmetExpectations()),
  backgroundTask(workspaceRetention(RUN_KINDS)),
  ...chainRetention(chainSigner, log).map(backgroundTask),
  backgroundTask(expiredResults()),
  backgroundTask(expiredDocuments()),
  backgroundTask(dueJobs({ openTenant, log })),
  backgroundTask(purgeLeftovers({ openTenant, log })),
  backgroundTask(expiredArchives({ openTenant, log })),
  backgroundTask(driftChecks({ openTenant, log })),
  backgroundTask(objectRemovals()),
  backgroundTask(unregisteredSchedules(TRIGGER_TARGETS)),
  ...(mailer.isConfigured ? [backgroundTask(approvalMails(mailer))] : []),
]
