/** Who may open which scope, and who runs as the system: pinned by file, so a new user is a decision. */

import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

async function filesThat(say: RegExp): Promise<string[]> {
  const entries = await readdir('src', { recursive: true })
  const files = entries.filter((name) => name.endsWith('.ts'))
  const texts = await Promise.all(
    files.map(async (name) => [name, await readFile(`src/${name}`, 'utf8')] as const),
  )
  return texts.flatMap(([name, text]) => (say.test(text) ? [name] : [])).sort()
}

test('scopes are opened in one place', async () => {
  expect(await filesThat(/(Workspace|Admin|Caller)Scope\.open\(/)).toEqual(['access/access.ts'])
})

test('identity headers are read in one place, which takes them away', async () => {
  expect(await filesThat(/x-(tenant-id|workspace-id|auth-subject|pg-role|gateway-secret)'/)).toEqual([
    'access/authentication/credentials.ts',
  ])
})

test('an admin scope goes inside a workspace to judge its documents, and to count the bytes of its objects', async () => {
  expect(await filesThat(/\benterWorkspace\(/)).toEqual([
    'access/access.ts',
    'features/collections/schemas/change-schema.ts',
    'features/quotas/quotas-api.ts',
  ])
})

test('the doors alone ask for scopes', async () => {
  expect(await filesThat(/access\.(open\w*|continue\w+)\(/)).toEqual([
    'activities/activity-scopes.ts',
    'activities/flow/event-trigger-handler.ts',
    'activities/flow/reconciler.ts',
    'activities/flow/record-sink.ts',
    'api/request-pipeline.ts',
    'api/webhooks.ts',
    'mcp/hosted-servers.ts',
    'mcp/platform-server.ts',
  ])
})

test('a scope puts on the rights of a service key for tools of MCP servers alone', async () => {
  expect(await filesThat(/\basWorkspaceService\(/)).toEqual([
    'access/access.ts',
    'features/mcp-servers/call-tool.ts',
    'features/mcp-servers/sources/collections.ts',
  ])
})

test('the system acts for few reasons', async () => {
  expect(await filesThat(/new SystemScope\(/)).toEqual([
    'access/audit/audit.ts',
    'access/authentication/authenticator.ts',
    'access/authentication/mcp-server-registry.ts',
    'access/issuer/accounts-store.ts',
    'access/issuer/issuer-state.ts',
    'access/issuer/oauth-clients-store.ts',
    'access/issuer/signing-keys.ts',
    'access/tenant-states.ts',
    'features/analytics/meters.ts',
    'features/flows/executions/watcher.ts',
    'features/flows/triggers/webhook-signatures.ts',
    'infra/postgres/leader-task.ts',
  ])
})

test('of what comes over HTTP, webhooks, the wire of MCP and the page that admits the Temporal UI alone are no operations', async () => {
  expect(await filesThat(/config: \{ operation: \{ name:/)).toEqual([
    'api/payload-viewer.ts',
    'api/webhooks.ts',
    'mcp/endpoint.ts',
  ])
})

test('settings of the database are set in one file', async () => {
  expect(await filesThat(/set_config/)).toEqual(['infra/postgres/database.ts'])
})

test('workflow ids are made of a ref in one file', async () => {
  expect(await filesThat(/workflow\.(start|getHandle|execute|signalWithStart)\(/)).toEqual([
    'infra/temporal/temporal.ts',
  ])
})

test('what runs there are is asked of the database: nobody asks the visibility of Temporal', async () => {
  const asking = /\b(workflow|schedule)\.(list|count)\(|(list|scan|count)\w*Workflow\w*\(/i
  expect(await filesThat(asking)).toEqual([])
})
