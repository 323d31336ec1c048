/**
 * Pages of lists (MCP, "Pagination"). Clients return `nextCursor` for the next page. A cursor is good for the list that it
 * came from: if an entry is added, removed or renamed, the client begins anew.
 */

import { createHash } from 'node:crypto'
import { INVALID_PARAMS, RpcRefusal } from '../../features/mcp-servers/calls/client-requests.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'

/** The lists of a server, by their member in the response. */
export type List = 'tools' | 'prompts' | 'resources' | 'resourceTemplates'

/** An entry; its key in the list is one of these. */
export interface Entry {
  readonly name: string
  readonly uri?: string
  readonly uriTemplate?: string
}

/** A page of a list as the response to a request for it. */
type Page<L extends List, E> = { [list in L]: E[] } & { nextCursor?: string }

/**
 * The first page, or the one after a cursor. All tools are on the first one: some clients read no other.
 * @throws RpcRefusal -32602 for a cursor that this list has not given
 */
export function listPage<L extends List, E extends Entry>(
  list: L,
  entries: readonly E[],
  cursor: string | undefined,
): Page<L, E> {
  const size = list === 'tools' ? entries.length : MCP_LIMITS.pageEntriesMax
  const cursors = entries.length > size ? cursorsOf(list, entries, size) : []
  // Cursors are compared and never parsed, so a forged one reaches no code.
  const previous = cursor === undefined ? -1 : cursors.indexOf(cursor)
  if (cursor !== undefined && previous < 0)
    throw new RpcRefusal(INVALID_PARAMS, 'cursor is not of this list as it is now. Begin without it.')
  const start = (previous + 1) * size
  const nextCursor = cursors[previous + 1]
  const page = { [list]: entries.slice(start, start + size) } as { [list in L]: E[] }
  return { ...page, ...(nextCursor !== undefined && { nextCursor }) }
}

/** One for each page but the first. */
function cursorsOf(list: List, entries: readonly Entry[], size: number): string[] {
  const keys = entries.map(({ uri, uriTemplate, name }) => uri ?? uriTemplate ?? name)
  const digest = createHash('sha256')
    .update(JSON.stringify([list, keys]))
    .digest('base64url')
  const count = Math.ceil(entries.length / size) - 1
  return Array.from({ length: count }, (_, index) => `${digest}.${(index + 1) * size}`)
}
