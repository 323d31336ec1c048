/** Results that are too large to return: kept for the principal whose call made them, who reads them in pages. */

import { randomBytes } from 'node:crypto'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { BackgroundTask } from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import { MCP_LIMITS } from '../limits.ts'

/** Results of tools hold documents, which an admin does not see. */
const asService = privilege('mcp.results')

interface KeptResult {
  readonly serverId: string
  /** The tool whose result it is, by name. */
  readonly tool: string
  readonly mimeType: string
  readonly content: Buffer
}

export const resultUri = (handle: string) => `tenon-result://${handle}`

/**
 * Keeps a result for the actor of the scope, and forgets the oldest ones if the actor has too many.
 * @returns its handle; undefined if the workspace has no room for it
 */
export async function keepResult(
  scope: WorkspaceScope,
  { serverId, tool, mimeType, content }: KeptResult,
): Promise<string | undefined> {
  const handle = randomBytes(16).toString('hex')
  const { subject } = scope.actor
  const [, , [kept] = []] = await asService(scope).batch(
    // Concurrent calls of a workspace share its room.
    sql`select pg_advisory_xact_lock(hashtextextended(${scope.ref.workspaceId}, ${LOCK}))`,
    sql`delete from mcp_results where expires_at <= now() or id in (
      select id from mcp_results where server_id = ${serverId} and principal = ${subject}
      order by made_at desc offset ${MCP_LIMITS.keptResults.perPrincipalMax - 1})`,
    sql`insert into mcp_results (id, server_id, principal, tool, mime_type, content, expires_at)
      select ${handle}::text, ${serverId}::text, ${subject}::text, ${tool}::text, ${mimeType}::text, ${content}::bytea,
        now() + make_interval(secs => ${MCP_LIMITS.keptResults.seconds}::integer)
      where (select coalesce(sum(bytes), 0) from mcp_results) + ${content.length}::integer
        <= ${MCP_LIMITS.keptResults.workspaceBytesMax}::integer
      returning id`,
  )
  return kept === undefined ? undefined : handle
}

/** The second key of the advisory lock. */
const LOCK = 7_302_527

/** The name of the tool whose result the actor of the scope has under a handle. */
export async function keptResultTool(
  scope: WorkspaceScope,
  serverId: string,
  handle: string,
): Promise<string | undefined> {
  const row = await asService(scope).row<{ tool: string }>(sql`
    select tool from mcp_results where id = ${handle} and server_id = ${serverId}
      and principal = ${scope.actor.subject} and expires_at > now()`)
  return row?.tool
}

interface ResultPart {
  readonly tool: string
  readonly mime_type: string
  readonly bytes: number
  readonly content: Buffer
}

/** A part of a result that the actor of the scope has under a handle. @param offset in bytes */
export async function readKeptResult(
  scope: WorkspaceScope,
  {
    server,
    handle,
    offset,
    length,
  }: Record<'server' | 'handle', string> & Record<'offset' | 'length', number>,
): Promise<ResultPart | undefined> {
  return scope.row<ResultPart>(sql`
    select tool, mime_type, bytes, substring(content from ${offset + 1}::integer for ${length}::integer) as content
    from mcp_results where id = ${handle} and server_id = ${server}
      and principal = ${scope.actor.subject} and expires_at > now()`)
}

const { deletedAtOnceMax: deletedAtOnce } = MCP_LIMITS.keptResults

/** Deletes expired results of all workspaces as it finds them. */
export function expiredResults(): BackgroundTask<never> {
  return {
    name: 'expired results',
    pollMs: BACKGROUND_LIMITS.pollMs,
    atOnce: 1,
    find: async (system) => {
      await system.rows(DELETE_EXPIRED)
      return []
    },
    run: async () => {},
  }
}

const DELETE_EXPIRED = sql`
  with expired as materialized (
    select tenant_id, workspace_id, id from mcp_results where expires_at <= now()
    order by expires_at limit ${deletedAtOnce}
  )
  delete from mcp_results r using expired e
  where r.tenant_id = e.tenant_id and r.workspace_id = e.workspace_id and r.id = e.id`
