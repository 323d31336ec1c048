/** Pins which files touch what decides on identity and isolation, so that a new one is a deliberate decision. */

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

test('identity headers: read in one file', async () => {
  expect(await filesThat(/x-(tenant-id|workspace-id|auth-subject|pg-role|gateway-secret)'/)).toEqual([
    'access/authentication/credentials.ts',
  ])
})

test('HTTP routes that are not operations: pages, webhooks, callbacks and MCP only', async () => {
  expect(await filesThat(/config: \{ operation: \{ name:/)).toEqual([
    'api/approval-routes.ts',
    'api/callbacks.ts',
    'api/payload-viewer.ts',
    // Without a credential, which each operation demands.
    'api/public-objects.ts',
    'api/webhooks.ts',
    'mcp/endpoint.ts',
  ])
})

test('session settings: set in one file, but for those of index builds and migrations, and the trace of each member of a merged transaction', async () => {
  expect(await filesThat(/set_config/)).toEqual([
    'features/collections/postgres/expand.ts',
    'infra/postgres/database.ts',
    'infra/postgres/index-builder.ts',
    'infra/postgres/migration-file.ts',
    'infra/postgres/transaction-batcher.ts',
  ])
  expect(await filesThat(/set_config\((?!'tenon\.trace')/)).toEqual([
    // Ids of documents, under names that are numbered; each statement sets its own before the next takes them.
    'features/collections/postgres/expand.ts',
    'infra/postgres/database.ts',
    // A connection of its own, for one build of one workspace.
    'infra/postgres/index-builder.ts',
    // How long a file of the schema waits, as the owner of the database.
    'infra/postgres/migration-file.ts',
  ])
})

test('workflow ids: built from a tenant reference in one file', async () => {
  expect(await filesThat(/workflow\.(start|getHandle|execute|signalWithStart)\(/)).toEqual([
    // Ends what a restored database does not know, by the ids that Temporal lists.
    'backup/restored-workflows.ts',
    // Reads the status of workflows for operators.
    'cli/stack/invariants.ts',
    'infra/temporal/temporal.ts',
  ])
})

test('lists of executions: queried from the database, never from Temporal visibility', async () => {
  const asking = /\b(workflow|schedule)\.(list|count)\(|(list|scan|count)\w*Workflow\w*\(/i
  // Operators compare the two, as a restore does, and a purge removes what is left there.
  expect(await filesThat(asking)).toEqual([
    'backup/restored-workflows.ts',
    'cli/stack/invariants.ts',
    'infra/temporal/owned-work.ts',
  ])
})

test('permissions: required and confirmed by entry points only, and scopes compared in one file', async () => {
  expect(await filesThat(/\bPermission\.require\(/)).toEqual([
    'api/payload-viewer.ts',
    'api/request-pipeline.ts',
    'mcp/platform/platform-server.ts',
  ])
  expect(await filesThat(/\brequireScope\(/)).toEqual(['access/permission.ts', 'core/policy.ts'])
  // Code of a function acts in a scope, without a credential, and a bulk change outlives its request.
  expect(await filesThat(/\bpermitActor\(/)).toEqual([
    'access/permission.ts',
    'activities/function/invocation-host.ts',
    'features/collections/bulk/change-documents.ts',
  ])
})
