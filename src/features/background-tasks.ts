/** The background tasks of all features, which one worker runs (background/task-runner.ts). */

import type { Mailer } from '../infra/mail/mail.ts'
import { type BackgroundTask, backgroundTask } from './background/background-task.ts'
import { approvalMails } from './flows/approvals/approval-mailer.ts'
import { concurrencyQueues, unstartedSlots } from './flows/executions/concurrency-queues.ts'
import { unmetExpectations } from './flows/executions/expectations.ts'
import { openExecutions } from './flows/executions/open-executions.ts'
import { executionRetention } from './flows/executions/retention.ts'
import { functionQueues, openRuns } from './functions/runs/open-runs.ts'
import { functionRunRetention } from './functions/runs/retention.ts'
import { expiredResults } from './mcp-servers/calls/kept-results.ts'

/** A task for mails exists if the mailer is configured. */
export const createBackgroundTasks = (mailer: Mailer): readonly BackgroundTask[] => [
  backgroundTask(openExecutions()),
  backgroundTask(unstartedSlots()),
  backgroundTask(concurrencyQueues()),
  backgroundTask(unmetExpectations()),
  backgroundTask(executionRetention()),
  backgroundTask(openRuns()),
  backgroundTask(functionQueues()),
  backgroundTask(functionRunRetention()),
  backgroundTask(expiredResults()),
  ...(mailer.isConfigured ? [backgroundTask(approvalMails(mailer))] : []),
]
