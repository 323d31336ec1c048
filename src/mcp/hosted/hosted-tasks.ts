/**
 * Offers executions of flows as tasks of a hosted server (extension `io.modelcontextprotocol/tasks`). The id of a task is that
 * of its execution. Tasks are read, answered and cancelled by the tools over executions (`execution_…`), with the checks of a call.
 */

import {
  INTERNAL_ERROR,
  RpcRefusal,
  validResponses,
} from '../../features/mcp-servers/calls/client-requests.ts'
import type { CallResult } from '../../features/mcp-servers/calls/tool-result.ts'
import type { ExecutionState } from '../../features/mcp-servers/tool.ts'
import { decisionsOf } from '../../features/mcp-servers/tool-providers/execution-outcome.ts'
import type { McpTasks, Task, TaskState, ToolResult } from '../protocol/mcp-server.ts'

/** Calls a tool over executions. */
type CallExecutionTool = (
  verb: 'status' | 'answer' | 'cancel',
  args: Readonly<Record<string, unknown>>,
) => Promise<CallResult | undefined>

/** How often a client should ask for the state of a task, in milliseconds. */
const POLL_MS = 1_000

const STATUS: Readonly<Record<ExecutionState['status'], Task['status']>> = {
  pending: 'working',
  running: 'working',
  waiting: 'working',
  suspended: 'working',
  completed: 'completed',
  // `failed` is for errors of the protocol. A flow that fails has a result with `isError`.
  faulted: 'completed',
  cancelled: 'cancelled',
}

const statusOf = ({ status, inputRequests }: ExecutionState): Task['status'] =>
  inputRequests === undefined ? STATUS[status] : 'input_required'

const describe = ({ id, startedAt, updatedAt }: ExecutionState): Omit<Task, 'resultType' | 'status'> => ({
  taskId: id,
  createdAt: startedAt,
  lastUpdatedAt: updatedAt,
  ttlMs: null,
  pollIntervalMs: POLL_MS,
})

/** The task of an open execution; undefined if it has ended. */
export function taskOf(execution: ExecutionState | undefined): Task | undefined {
  if (execution === undefined || STATUS[execution.status] !== 'working') return undefined
  // Clients read its requests with `tasks/get`.
  return { resultType: 'task', status: 'working', ...describe(execution) }
}

/** @param toToolResult converts a result to the form of the protocol */
export function tasksOf(call: CallExecutionTool, toToolResult: (result: CallResult) => ToolResult): McpTasks {
  /** @returns undefined for an unknown execution. @throws RpcRefusal for other errors */
  const use = async (...of: Parameters<CallExecutionTool>): Promise<CallResult | undefined> => {
    const result = await call(...of)
    if (result === undefined || result.execution !== undefined) return result
    if (result.code === 'not_found') return undefined
    const [first] = result.content
    const text = first?.type === 'text' ? first.text : ''
    throw new RpcRefusal(INTERNAL_ERROR, text)
  }
  const read = (taskId: string) => use('status', { execution: taskId })
  return {
    get: async (taskId): Promise<TaskState | undefined> => {
      const result = await read(taskId)
      if (result?.execution === undefined) return undefined
      const { execution } = result
      const status = statusOf(execution)
      return {
        ...describe(execution),
        status,
        ...(status === 'completed' && { result: toToolResult(result) }),
        ...(execution.inputRequests && { inputRequests: execution.inputRequests }),
      }
    },
    update: async (taskId, inputResponses) => {
      const execution = (await read(taskId))?.execution
      if (execution === undefined) return false
      // Responses to requests that are no longer open have no effect.
      for (const decision of decisionsOf(validResponses(execution.inputRequests ?? {}, inputResponses)))
        await call('answer', { execution: taskId, ...decision })
      return true
    },
    cancel: async (taskId) => {
      const execution = (await read(taskId))?.execution
      if (execution !== undefined && STATUS[execution.status] === 'working')
        await call('cancel', { execution: taskId })
      return execution !== undefined
    },
  }
}
