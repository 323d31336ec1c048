/** The background tasks of all features, which one worker runs (background/task-runner.ts). */

import type { Mailer } from '../infra/mail/mail.ts'
import { type BackgroundTask, backgroundTask } from './background/background-task.ts'
import { approvalMails } from './flows/approvals/approval-mailer.ts'
import { unmetExpectations } from './flows/executions/expectations.ts'
import { expiredResults } from './mcp-servers/calls/kept-results.ts'
import { RUN_KINDS } from './run-kinds.ts'
import { openRuns } from './runs/open-runs.ts'
import { runRetention } from './runs/retention.ts'
import { slotQueues, unstartedSlots } from './runs/slot-tasks.ts'

/** A task for mails exists if the mailer is configured. */
export const createBackgroundTasks = (mailer: Mailer): readonly BackgroundTask[] => [
  ...RUN_KINDS.flatMap((kind) => [
    backgroundTask(openRuns(kind)),
    backgroundTask(unstartedSlots(kind)),
    backgroundTask(slotQueues(kind)),
  ]),
  backgroundTask(unmetExpectations()),
  backgroundTask(runRetention(RUN_KINDS)),
  backgroundTask(expiredResults()),
  ...(mailer.isConfigured ? [backgroundTask(approvalMails(mailer))] : []),
]
