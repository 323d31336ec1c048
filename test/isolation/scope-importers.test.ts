/** Pins which files open scopes or act as the system, so that a new one is a deliberate decision. */

import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

async function filesThat(pattern: RegExp): Promise<string[]> {
  const entries = await readdir('src', { recursive: true })
  const files = entries.filter((name) => name.endsWith('.ts'))
  const texts = await Promise.all(
    files.map(async (name) => [name, await readFile(`src/${name}`, 'utf8')] as const),
  )
  return texts.flatMap(([name, text]) => (pattern.test(text) ? [name] : [])).sort()
}

test('scopes: opened in one file', async () => {
  expect(await filesThat(/new (Workspace|Caller)Scope\(|AdminScope\.open\(/)).toEqual([
    'access/access.ts',
    // The same scope within a transaction.
    'access/scope.ts',
  ])
})

test('identity headers: read in one file', async () => {
  expect(await filesThat(/x-(tenant-id|workspace-id|auth-subject|pg-role|gateway-secret)'/)).toEqual([
    'access/authentication/credentials.ts',
  ])
})

test('admin scope inside a workspace: entered to validate documents, explain rules and count bytes only', async () => {
  expect(await filesThat(/\bopenWorkspaceScope\(/)).toEqual([
    'access/access.ts',
    'features/collections/rules/explain-access.ts',
    'features/collections/schemas/change-schema.ts',
    'features/quotas/quotas-api.ts',
  ])
})

test('scopes: requested by entry points only', async () => {
  expect(await filesThat(/access\.(open\w*|continue\w+)\(/)).toEqual([
    'activities/flow/background-work.ts',
    'activities/flow/record-sink.ts',
    'activities/function/function-events.ts',
    'activities/tenant-interceptor.ts',
    'api/approval-routes.ts',
    'api/callbacks.ts',
    'api/request-pipeline.ts',
    'api/webhooks.ts',
    'mcp/hosted/hosted-access.ts',
    'mcp/platform/platform-server.ts',
  ])
})

test('rights of a service key: assumed for tools of MCP servers and for the lookups of rules only', async () => {
  expect(await filesThat(/\basWorkspaceService\(/)).toEqual([
    'features/collections/resolve-store.ts',
    'features/mcp-servers/calls/call-tool.ts',
    // Results of tools have documents.
    'features/mcp-servers/calls/kept-results.ts',
    'features/mcp-servers/tool-providers/collections.ts',
    'features/mcp-servers/watch-documents.ts',
  ])
})

test('rights to run flows: assumed for keys and tokens with a scope only', async () => {
  expect(await filesThat(/\basFlowRunner\(/)).toEqual(['features/flows/executions/key-operations.ts'])
})

test('rights to keep records of function runs: assumed by the files that start and read runs only', async () => {
  expect(await filesThat(/\b(asRunOwner|openRunScope)\(/)).toEqual([
    'access/access.ts',
    'features/functions/runs/key-operations.ts',
    'features/functions/runs/run-operation.ts',
    'features/functions/runs/runs-of-function.ts',
    'features/functions/runs/start-queued.ts',
    'features/functions/runs/start-run.ts',
  ])
})

test('system scope: used by a fixed list of files', async () => {
  expect(await filesThat(/new SystemScope\(/)).toEqual([
    'access/audit/audit.ts',
    'access/authentication/authenticator.ts',
    'access/authentication/mcp-server-registry.ts',
    'access/issuer/accounts-store.ts',
    'access/issuer/issuer-state.ts',
    'access/issuer/oauth-clients-store.ts',
    'access/issuer/signing-keys.ts',
    'access/issuer/users/identities-store.ts',
    'access/issuer/users/passkeys.ts',
    'access/issuer/users/second-factors.ts',
    'access/issuer/users/user-links.ts',
    'access/issuer/users/users-store.ts',
    'access/tenant-states.ts',
    'features/analytics/meters.ts',
    'features/flows/executions/callbacks.ts',
    'features/flows/executions/watcher.ts',
    'features/flows/triggers/webhook-verifier.ts',
    'infra/postgres/leader-task.ts',
  ])
})

test('HTTP routes that are not operations: pages, webhooks, callbacks and MCP only', async () => {
  expect(await filesThat(/config: \{ operation: \{ name:/)).toEqual([
    'api/approval-routes.ts',
    'api/callbacks.ts',
    'api/payload-viewer.ts',
    'api/webhooks.ts',
    'mcp/endpoint.ts',
  ])
})

test('session settings: set in one file', async () => {
  expect(await filesThat(/set_config/)).toEqual(['infra/postgres/database.ts'])
})

test('workflow ids: built from a tenant reference in one file', async () => {
  expect(await filesThat(/workflow\.(start|getHandle|execute|signalWithStart)\(/)).toEqual([
    // Reads the status of workflows for operators.
    'cli/stack/invariants.ts',
    'infra/temporal/temporal.ts',
  ])
})

test('lists of executions: queried from the database, never from Temporal visibility', async () => {
  const asking = /\b(workflow|schedule)\.(list|count)\(|(list|scan|count)\w*Workflow\w*\(/i
  // Operators compare the two.
  expect(await filesThat(asking)).toEqual(['cli/stack/invariants.ts'])
})
