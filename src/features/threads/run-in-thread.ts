/** Runs a task in a worker thread, in the share of the caller's tenant. */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { runInThread } from '../../access/scope-services.ts'
import type { Ran } from '../../infra/thread-pool.ts'
import type { TASKS } from './tasks.ts'

export type Tasks = typeof TASKS

/**
 * @param cpuMs the CPU time after which the task is stopped, in milliseconds
 * @throws Problem `overloaded` if the tenant's share is used up
 */
export function inThread<N extends keyof Tasks>(
  scope: AdminScope | WorkspaceScope,
  name: N,
  input: Parameters<Tasks[N]>[0],
  cpuMs: number,
): Promise<Ran<ReturnType<Tasks[N]>>> {
  return runInThread(scope, { name, input, cpuMs })
}
