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

const PURPOSE = 'mcp-session'

/** @param capabilities as in `initialize`, unverified */
export function sessionId(scope: WorkspaceScope, owner: Owner, capabilities: unknown): string {
  const text = JSON.stringify([textOf(owner), usedOf(capabilities)])
  return encryptFor(scope, PURPOSE, Buffer.from(text)).toString('base64url')
}

/** The capabilities that a server uses, without what else a client says of them. */
function usedOf(capabilities: unknown): Record<string, object> {
  const { elicitation, sampling, roots } = Object(capabilities) as Record<string, unknown>
  const modes = ['form', 'url'].filter((mode) => isObject(elicitation) && isObject(elicitation[mode]))
  return {
    ...(isObject(elicitation) && { elicitation: Object.fromEntries(modes.map((mode) => [mode, {}])) }),
    ...(isObject(sampling) && { sampling: {} }),
    ...(isObject(roots) && { roots: {} }),
  }
}

/** @returns the capabilities of the client; undefined if the id is not of a session of this client at this server */
export function sessionCapabilities(
  scope: WorkspaceScope,
  owner: Owner,
  id: string,
): Readonly<Record<string, object>> | undefined {
  try {
    const text = decryptFor(scope, PURPOSE, Buffer.from(id, 'base64url')).toString()
    const [bound, declared] = JSON.parse(text) as [string, Record<string, object>]
    return bound === textOf(owner) ? declared : undefined
  } catch {
    return undefined // Of another workspace, or no id of ours.
  }
}

const textOf = ({ serverId, principal, clientId }: Owner) => JSON.stringify([serverId, principal, clientId])
