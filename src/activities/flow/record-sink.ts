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
 * The worker answers Temporal when this has ended, and not before: a task whose record cannot be written since a server is
 * away is not done, runs out, and is done again by whoever is there. Whatever else is wrong holds up no place of
 * the worker, which others wait for: it is tried again beside it.
 */
export function recordSink(access: Access, log: Log): InjectedSinks<Records> {
  const late = new RetryQueue(log)
  return {
    records: {
      write: {
        fn: async ({ workflowId }, update) => {
          try {
            const scope = scopeOf(access, workflowId, update)
            const write = () => recordRun(scope, update)
            await retryTransient(holdMs, write).catch((error: unknown) => {
              if (!mayYetSucceed(error)) throw error
              late.add(workflowId, write)
            })
          } catch (error) {
            logFailure(log, workflowId, error)
          }
        },
      },
    },
  }
}

/** Records that are written when they can be, for as long as the process lives; one of each run. */
class RetryQueue {
  readonly #log: Log
  readonly #runs = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  add(workflowId: string, write: () => Promise<void>): void {
    // A task that is done again says the same.
    if (this.#runs.has(workflowId)) return
    this.#runs.add(workflowId)
    void retryTransient(patienceMs, write, mayYetSucceed)
      .catch((error: unknown) => logFailure(this.#log, workflowId, error))
      .finally(() => this.#runs.delete(workflowId))
  }
}

function logFailure(log: Log, workflow: string, error: unknown): void {
  log.error({ err: error, workflow }, 'the record of a run cannot be written')
}

/** @throws Problem `forbidden` where a run speaks of another one than itself */
function scopeOf(access: Access, workflowId: string, { execution_id }: RunUpdate): WorkspaceScope {
  const ref = refOf(workflowId)
  const isItself = workflowId.endsWith(`:${uuidOf(execution_id)}`)
  if (ref === undefined || !isItself)
    throw new Problem('forbidden', { detail: 'The record is not that of the run that its id names.' })
  const actor = { subject: workflowId, role: 'workspace_admin' } as const
  return access.continueWorkspace(workspaceOf({ ref }), actor, randomIds)
}

const mayYetSucceed = (error: unknown) => !(error instanceof Problem && error.isFinal)
