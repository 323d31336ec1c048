/** The operations that take an `Idempotency-Key`, and those whose output is kept with their effect. */

import { acceptsKey } from '../../src/core/operation.ts'
import { OPERATIONS } from '../../src/features/index.ts'

/** Those that PATCH come last: some close what others need. */
export const KEYED = OPERATIONS.filter(acceptsKey).sort((a, b) => b.http.method.localeCompare(a.http.method))

/** Their output is kept in the transaction of the effect, so a repetition gets the reply of the attempt that made it. */
export const KEPT: readonly string[] = [
  ...[
    'collection.create',
    'collection.update',
    'collection.patch',
    'collection.batch',
    'batch.run',
    'schema.create',
    'collection.truncate',
    'collection.rename',
  ],
  ...[
    'api_key.create',
    'api_key.update',
    'api_key.rotate',
    'oauth_client.create',
    'oauth_client.rotate_secret',
  ],
  ...['tenant.update', 'workspace.update', 'host.create'],
  ...['account.create', 'account.update', 'account.invite', 'account.reset', 'account.confirm'],
  ...['account.reset_factors'],
  ...['user.create', 'user.update', 'user.invite', 'user.sign_out', 'user.reset_factors'],
  ...['flow.create', 'flow_version.create', 'trigger.rotate_secret', 'trigger.pause', 'trigger.resume'],
  ...['function.create', 'function_version.activate'],
  ...[
    'mcp_server.create',
    'mcp_server.update',
    'mcp_version.create',
    'mcp_version.approve',
    'mcp_version.activate',
  ],
  ...['mcp_client.create', 'mcp_source.create'],
  ...['object.copy', 'object.move', 'object.update', 'object.remove_all'],
]

/** The id of the document that a tool has written, in the answer of `mcp_server.call`. */
export const writtenByTool = (body: Record<string, unknown>): unknown =>
  (body['structured_content'] as { id?: unknown } | undefined)?.id

/** The path parameters of `path`, by name; a version is a number, as its operation gets it. */
export function boundIn(template: string, path: string): Record<string, string | number> {
  const pattern = template.replaceAll(/\{(\w+)\*?\}/g, '(?<$1>[^/]+)')
  const groups = new RegExp(`^${pattern}$`).exec(path)?.groups ?? {}
  const values = Object.entries(groups).map(([name, text]) => [
    name,
    name === 'version' ? Number(text) : text,
  ])
  return Object.fromEntries(values)
}
