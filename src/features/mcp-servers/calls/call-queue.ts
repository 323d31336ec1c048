/** Queues the log entries of calls on MCP servers, by workspace. Concurrent calls share an append. */

import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { AppendQueue } from '../../../infra/append-queue.ts'
import type { Log } from '../../../infra/log.ts'
import { MCP_LIMITS } from '../limits.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly callQueue: CallQueue
  }
}

const callQueue = privilege('mcp.call_log')

export const callQueueOf = (scope: WorkspaceScope): CallQueue => callQueue(scope)

/** The entry of a call, and the chain that it belongs to. */
export interface CallEntry {
  readonly serverId: string
  readonly entry: string
}

interface QueuedCall extends CallEntry {
  /** Appends to the chains of its workspace. */
  readonly append: (entries: readonly CallEntry[]) => Promise<void>
}

export class CallQueue {
  readonly #log: Log
  readonly #queues = new Map<string, AppendQueue<QueuedCall>>()

  constructor(log: Log) {
    this.#log = log
  }

  /**
   * Queues an entry, which is in the log within `INFRA_LIMITS.appendDelayMs`, after the earlier ones of its workspace.
   * @throws Problem of the database if too many entries wait for it
   */
  async push({ ref }: WorkspaceScope, call: QueuedCall): Promise<void> {
    for (;;) {
      const queue = this.#queues.get(ref.workspaceId) ?? this.#open(ref.workspaceId)
      if (queue.push(call)) return
      await queue.flush()
    }
  }

  /** Resolves when the entries of the workspace that wait in this process are in the log. @throws Problem of the database */
  async flush({ ref }: WorkspaceScope): Promise<void> {
    await this.#queues.get(ref.workspaceId)?.flush()
  }

  /** Appends the rest. */
  async close(): Promise<void> {
    const pending = await Promise.all([...this.#queues.values()].map((queue) => queue.close()))
    const lost = pending.reduce((sum, count) => sum + count, 0)
    if (lost > 0) this.#log.error({ pending: lost }, 'MCP call entries lost')
  }

  #open(workspaceId: string): AppendQueue<QueuedCall> {
    const queue = new AppendQueue<QueuedCall>({
      append: async (calls) => calls[0]?.append(calls),
      onFailure: (err, pending) => this.#log.error({ err, pending }, 'MCP call entries deferred'),
      onRejected: (_call, err) => this.#log.error({ err }, 'MCP call entry rejected'),
      onStored: () => {
        if (queue.size === 0) this.#queues.delete(workspaceId)
      },
      rowsMax: MCP_LIMITS.callsPendingMax,
    })
    this.#queues.set(workspaceId, queue)
    return queue
  }
}
