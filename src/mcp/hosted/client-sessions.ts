/**
 * Sessions of clients up to MCP 2025-11-25, without a store: the id of a session is what the client said of itself at its
 * beginning, encrypted for the workspace and bound to server, principal and client.
 */

import type { WorkspaceScope } from '../../access/scope.ts'
import { decryptFor, encryptFor } from '../../access/scope-services.ts'
import { isObject } from '../../core/json.ts'

/** The client at the other end of a session. */
interface Owner {
  readonly serverId: string
  readonly principal: string
  readonly clientId: string
}

/** Capabilities of clients that a server uses. */
const USED = ['elicitation', 'sampling', 'roots'] as const

const PURPOSE = 'mcp-session'

/** @param capabilities as in `initialize`, unverified */
export function sessionId(scope: WorkspaceScope, owner: Owner, capabilities: unknown): string {
  const declared = isObject(capabilities) ? USED.filter((name) => isObject(capabilities[name])) : []
  return encryptFor(scope, PURPOSE, Buffer.from(JSON.stringify([textOf(owner), declared]))).toString(
    'base64url',
  )
}

/** @returns the capabilities of the client; undefined if the id is not of a session of this client at this server */
export function sessionCapabilities(
  scope: WorkspaceScope,
  owner: Owner,
  id: string,
): Readonly<Record<string, object>> | undefined {
  try {
    const text = decryptFor(scope, PURPOSE, Buffer.from(id, 'base64url')).toString()
    const [bound, declared] = JSON.parse(text) as [string, string[]]
    return bound === textOf(owner) ? Object.fromEntries(declared.map((name) => [name, {}])) : undefined
  } catch {
    return undefined // Of another workspace, or no id of ours.
  }
}

const textOf = ({ serverId, principal, clientId }: Owner) => JSON.stringify([serverId, principal, clientId])
