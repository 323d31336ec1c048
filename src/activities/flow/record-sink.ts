/** Writes the last record of an execution before Temporal learns that it has ended. */

import type { InjectedSinks } from '@temporalio/worker'
import type { Access } from '../../access/access.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { randomIds, uuidOf } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { RunUpdate } from '../../core/run.ts'
import { refOf } from '../../core/tenant.ts'
import { recordRun } from '../../features/flows/executions/record.ts'
import type { Log } from '../../infra/log.ts'
import { retryTransient } from '../../infra/retry.ts'
import type { Records } from '../contract.ts'
import { workspaceOf } from '../tenant-interceptor.ts'

const { holdMs, patienceMs } = LIMITS.recordRetry

/**
 * The worker completes the workflow task only after `write` has returned. While a server is unavailable, `write` retries for
 * longer than the task's timeout, so Temporal gives the task to another worker. After that, or for another error that may
 * pass, a background retry takes over, so that the task's slot becomes free.
 */
export function recordSink(access: Access, log: Log): InjectedSinks<Records> {
  const retries = new RetryQueue(log)
  return {
    records: {
      write: {
        fn: async ({ workflowId }, update) => {
          try {
            const scope = scopeOf(access, workflowId, update)
            const write = () => recordRun(scope, update)
            await retryTransient(holdMs, write).catch((error: unknown) => {
              if (!isRetryable(error)) throw error
              retries.add(workflowId, write)
            })
          } catch (error) {
            logFailure(log, workflowId, error)
          }
        },
      },
    },
  }
}

/**
 * Retries writing records in the background, at most one of each workflow. If the process ends first, the record is lost, and
 * the reconciler marks the execution as ended.
 */
class RetryQueue {
  readonly #log: Log
  readonly #workflowIds = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  add(workflowId: string, write: () => Promise<void>): void {
    // A repeated task writes the same record.
    if (this.#workflowIds.has(workflowId)) return
    this.#workflowIds.add(workflowId)
    void retryTransient(patienceMs, write, isRetryable)
      .catch((error: unknown) => logFailure(this.#log, workflowId, error))
      .finally(() => this.#workflowIds.delete(workflowId))
  }
}

function logFailure(log: Log, workflow: string, error: unknown): void {
  log.error({ err: error, workflow }, 'execution record write failed')
}

/** The workspace of the workflow. @throws Problem `forbidden` if the update is for another execution than the workflow's own */
function scopeOf(access: Access, workflowId: string, { execution_id }: RunUpdate): WorkspaceScope {
  const ref = refOf(workflowId)
  const isItself = workflowId.endsWith(`:${uuidOf(execution_id)}`)
  if (ref === undefined || !isItself)
    throw new Problem('forbidden', { detail: 'The record belongs to another execution than its workflow.' })
  const actor = { subject: workflowId, role: 'workspace_admin' } as const
  return access.continueWorkspace(workspaceOf({ ref }), actor, randomIds)
}

const isRetryable = (error: unknown) => !(error instanceof Problem && error.isFinal)
