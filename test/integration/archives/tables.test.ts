/** Each table with rows of a workspace moves with its archive, or is named here with the reason why it does not: none is forgotten. */

import { expect, test } from 'vitest'
import { createSweepResources } from '../../isolation/sweep-rows.ts'
import { exportArchive, importArchive } from '../../support/fixtures/archives.ts'
import { asSuperuser, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'

const MOVES = [
  ...['services', 'buckets', 'objects', 'schemas', 'documents', 'users', 'triggers'],
  ...['functions', 'function_versions', 'function_aliases', 'flows', 'flow_versions', 'flow_aliases'],
  ...['mcp_servers', 'mcp_server_versions', 'mcp_sources'],
]

/** Tables by the reason. */
const STAYS: Readonly<Record<string, readonly string[]>> = {
  'does not move, because it is a credential: those that have a name are named in the archive, and made again by hand':
    [
      ...['api_keys', 'accounts', 'oauth_clients', 'mcp_clients', 'flow_secrets', 'webhook_secrets'],
      ...['second_factors', 'passkeys', 'user_identities', 'user_links', 'sessions'],
    ],
  'does not move, because it is decided where the workspace is: the archive names it': ['quotas', 'hosts'],
  'does not move, because it tells what was done, or is being done, in the old workspace': [
    ...['executions', 'execution_steps', 'execution_events', 'callbacks', 'approvals', 'event_subscriptions'],
    ...[
      'bulk_changes',
      'function_runs',
      'function_run_logs',
      'run_slots',
      'webhook_deliveries',
      'idempotency',
      'meters',
    ],
    ...['mcp_calls', 'mcp_call_heads', 'mcp_results', 'chain_checkpoints', 'outbox', 'subscription_offsets'],
    ...['object_uploads', 'object_upload_parts', 'resumable_uploads', 'object_removals', 'unused_blobs'],
  ],
  'does not move, because it follows from what moves, and is made again': [
    ...['object_images', 'quota_sources', 'trigger_states', 'flow_intervals'],
  ],
}

test('tables of a workspace, by the catalogue: each one moves, or has a reason why it stays', async () => {
  const owned = await asSuperuser<{ relation: string }>('select relation from tenon.owned_tables(true)')
  const listed = [...MOVES, ...Object.values(STAYS).flat()]
  expect(listed.toSorted()).toEqual(owned.map(({ relation }) => relation).toSorted())
})

test('tables that move: of a workspace with everything, each has rows of the workspace that was imported', async () => {
  const from = await createTestWorkspaceWithStorage()
  await createSweepResources(from)
  const to = await importArchive(from, await exportArchive(from))
  const filled = async (workspaceId: string) => {
    const queries = MOVES.map(
      (table) =>
        `select '${table}' as name where exists (select from tenon.${table} where workspace_id = $1)`,
    )
    const rows = await asSuperuser<{ name: string }>(queries.join(' union all '), [workspaceId])
    return rows.map(({ name }) => name).toSorted()
  }
  expect(await filled(from.workspaceId)).toEqual(MOVES.toSorted())
  expect(await filled(to.workspaceId)).toEqual(MOVES.toSorted())
})
