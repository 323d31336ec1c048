/** Appends calls on hosted MCP servers to the log of their server, which is a hash chain. Concurrent calls of a workspace share an append. */

import { sanitizeText } from '../../../access/audit/entry.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { canonical, isObject } from '../../../core/json.ts'
import { AppendQueue } from '../../../infra/append-queue.ts'
import type { Log } from '../../../infra/log.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { MCP_LIMITS } from '../limits.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly callQueue: CallQueue
  }
}

const callQueue = privilege('mcp.call_log')

/** The entry points: the MCP endpoint, the REST API, and `call: mcp` of flows. */
export const CHANNELS = ['wire', 'rest', 'flow'] as const

/** The entry point, caller and request of a call. */
export interface CallContext {
  readonly channel: (typeof CHANNELS)[number]
  readonly principal: string | null
  /** The OAuth client that the token was issued to. */
  readonly clientId?: string | undefined
  /** Of the client. */
  readonly address?: string
  readonly requestId: string
  /** The full scope that allowed the call, or that was missing. */
  readonly toolScope?: string | undefined
}

export const OUTCOMES = ['ok', 'tool_error', 'rpc_error', 'denied'] as const

/** The outcome of a call: HTTP status, JSON-RPC error code, problem code. */
export interface Outcome {
  readonly outcome: (typeof OUTCOMES)[number]
  readonly transportStatus: number
  readonly rpcCode?: number | undefined
  readonly code?: string
  /** Of the canonical arguments, which are not stored. */
  readonly argumentsSha256?: string
}

interface CallRecord extends CallContext, Outcome {
  readonly serverId: string
  readonly version?: number
  /** SHA-256 of the manifest, hex. */
  readonly versionHash?: string
  readonly tool?: string
  /** As the caller sent them. Only names and types of the top-level members are stored. */
  readonly arguments?: unknown
  readonly durationMs: number
}

/**
 * Records a call before its reply.
 * @throws Problem if the database does not store it now; then the call fails, too
 */
export async function recordCall(scope: WorkspaceScope, call: CallRecord): Promise<void> {
  await recordSoon(scope, call)
  await callQueueOf(scope).flush(scope)
}

/**
 * Records a call within `INFRA_LIMITS.appendDelayMs`, for calls that have changed nothing (decision 46).
 * @throws Problem as {@link recordCall}, if too many calls wait
 */
export async function recordSoon(scope: WorkspaceScope, call: CallRecord): Promise<void> {
  const append = (entries: readonly CallEntry[]) => appendCalls(scope, entries)
  await callQueueOf(scope).push(scope, { serverId: call.serverId, entry: entryOf(scope, call), append })
}

async function appendCalls(scope: WorkspaceScope, entries: readonly CallEntry[]): Promise<void> {
  const [servers, texts] = [entries.map(({ serverId }) => serverId), entries.map(({ entry }) => entry)]
  await scope.rows(sql`select append_mcp_calls(${textArray(servers)}::text[], ${textArray(texts)}::text[])`)
}

function entryOf({ ref }: WorkspaceScope, call: CallRecord): string {
  return canonical({
    address: call.address ?? null,
    arguments_sha256: call.argumentsSha256 ?? null,
    arguments_shape: shapeOf(call.arguments),
    channel: call.channel,
    client_id: storable(call.clientId || null),
    code: call.code ?? null,
    duration_ms: call.durationMs,
    outcome: call.outcome,
    principal: storable(call.principal),
    request_id: shortened(call.requestId, 128),
    rpc_code: call.rpcCode ?? null,
    scope: call.toolScope ?? null,
    server_id: call.serverId,
    tenant_id: ref.tenantId,
    time: new Date().toISOString(),
    tool: call.tool === undefined ? null : shortened(call.tool, NAME_CHARS_MAX),
    transport_status: call.transportStatus,
    version: call.version ?? null,
    version_hash: call.versionHash ?? null,
    workspace_id: ref.workspaceId,
  })
}

/** Of names that the caller chose. */
const NAME_CHARS_MAX = 100

/** Subjects and clients come from tokens, perhaps of another issuer. JSON in PostgreSQL takes no NUL and no lone surrogates. */
const storable = (text: string | null) => text?.toWellFormed().replaceAll('\0', '\ufffd') ?? null

const shortened = (text: string, charsMax: number) => sanitizeText(text.slice(0, charsMax))

/** `["id: string", …]`, sorted: the first top-level members; null unless the arguments are an object. */
function shapeOf(args: unknown): string[] | null {
  if (!isObject(args)) return null
  const names = Object.keys(args).slice(0, MCP_LIMITS.shapeMembersMax).sort()
  const members = names.map((name) => `${shortened(name, NAME_CHARS_MAX)}: ${typeOf(args[name])}`)
  let chars = 0
  return members.filter((member) => {
    chars += member.length
    return chars <= MCP_LIMITS.shapeCharsMax
  })
}

/** The type of a JSON value. */
function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

export const callQueueOf = (scope: WorkspaceScope): CallQueue => callQueue(scope)

/** The entry of a call, and the chain that it belongs to. */
interface CallEntry {
  readonly serverId: string
  readonly entry: string
}

interface QueuedCall extends CallEntry {
  /** Appends to the chains of its workspace. */
  readonly append: (entries: readonly CallEntry[]) => Promise<void>
}

/** Queues the entries of calls, by workspace. */
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

  /** Entries that wait to be stored. */
  get pending(): number {
    return [...this.#queues.values()].reduce((sum, { size }) => sum + size, 0)
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
