/**
 * Offers executions of flows as tasks of a hosted server (extension `io.modelcontextprotocol/tasks`). The id of a task is that
 * of its execution. Tasks are read, answered and cancelled by the tools over executions (`run_…`), with the checks of a call.
 */

import type { CallResult } from '../../features/mcp-servers/calls/call-end.ts'
import {
  INTERNAL_ERROR,
  RpcRefusal,
  validResponses,
} from '../../features/mcp-servers/calls/client-requests.ts'
import type { RunState } from '../../features/mcp-servers/tool.ts'
import { decisionsOf } from '../../features/mcp-servers/tool-providers/execution-outcome.ts'
import type { McpTasks, Task, TaskState, ToolResult } from '../protocol/mcp-server.ts'

/** Calls a tool over executions. */
type CallRunTool = (
  verb: 'status' | 'answer' | 'cancel',
  args: Readonly<Record<string, unknown>>,
) => Promise<CallResult | undefined>

/** How often a client should ask for the state of a task, in milliseconds. */
const POLL_MS = 1_000

const STATUS: Readonly<Record<RunState['status'], Task['status']>> = {
  pending: 'working',
  running: 'working',
  waiting: 'working',
  suspended: 'working',
  completed: 'completed',
  // `failed` is for errors of the protocol. A flow that fails has a result with `isError`.
  faulted: 'completed',
  cancelled: 'cancelled',
}

const statusOf = ({ status, inputRequests }: RunState): Task['status'] =>
  inputRequests === undefined ? STATUS[status] : 'input_required'

const describe = (run: RunState): Omit<Task, 'resultType' | 'status'> => ({
  taskId: run.id,
  createdAt: run.startedAt,
  lastUpdatedAt: run.updatedAt,
  ttlMs: null,
  pollIntervalMs: POLL_MS,
})

/** The task of an open execution; undefined if it has ended. */
export function taskOf(run: RunState | undefined): Task | undefined {
  if (run === undefined || STATUS[run.status] !== 'working') return undefined
  // Clients read its requests with `tasks/get`.
  return { resultType: 'task', status: 'working', ...describe(run) }
}

/** @param shown converts a result to the form of the protocol */
export function tasksOf(call: CallRunTool, shown: (result: CallResult) => ToolResult): McpTasks {
  /** @returns undefined for an unknown execution. @throws RpcRefusal for other errors */
  const use = async (...of: Parameters<CallRunTool>): Promise<CallResult | undefined> => {
    const result = await call(...of)
    if (result === undefined || result.run !== undefined) return result
    if (result.code === 'not_found') return undefined
    const [first] = result.content
    const text = first?.type === 'text' ? first.text : ''
    throw new RpcRefusal(INTERNAL_ERROR, text)
  }
  const read = (taskId: string) => use('status', { run: taskId })
  return {
    get: async (taskId): Promise<TaskState | undefined> => {
      const result = await read(taskId)
      if (result?.run === undefined) return undefined
      const { run } = result
      const status = statusOf(run)
      return {
        ...describe(run),
        status,
        ...(status === 'completed' && { result: shown(result) }),
        ...(run.inputRequests && { inputRequests: run.inputRequests }),
      }
    },
    update: async (taskId, inputResponses) => {
      const run = (await read(taskId))?.run
      if (run === undefined) return false
      // Responses to requests that are no longer open have no effect.
      for (const decision of decisionsOf(validResponses(run.inputRequests ?? {}, inputResponses)))
        await call('answer', { run: taskId, ...decision })
      return true
    },
    cancel: async (taskId) => {
      const run = (await read(taskId))?.run
      if (run !== undefined && STATUS[run.status] === 'working') await call('cancel', { run: taskId })
      return run !== undefined
    },
  }
}
