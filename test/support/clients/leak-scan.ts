/**
 * Collects everything that an execution leaves behind, as text: histories, visibility, tables and log files.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { inject } from 'vitest'
import { asSuperuser, call, type TestWorkspace } from '../fixtures/tenants.ts'

/**
 * Histories, descriptions and visibility of all workflows of the workspace's tenant, or the history of one.
 */
export async function temporalTexts(workspace: TestWorkspace, one?: string): Promise<string> {
  const { tenantId } = workspace
  const { env } = inject('tenon')
  const connection = await Connection.connect({ address: env['TEMPORAL_ADDRESS'] ?? '' })
  const client = new Client({ connection, namespace: env['TEMPORAL_NAMESPACE'] ?? 'default' })
  try {
    if (one !== undefined)
      return await decrypted(workspace, await client.workflow.getHandle(one).fetchHistory())
    const found: unknown[] = []
    for await (const listed of client.workflow.list({ query: `TenantId = "${tenantId}"` })) {
      const handle = client.workflow.getHandle(listed.workflowId, listed.runId)
      found.push(listed.raw, (await handle.describe()).raw, await handle.fetchHistory())
    }
    return await decrypted(workspace, found)
  } finally {
    await connection.close()
  }
}

interface Encoded {
  metadata: Record<string, string>
  data: string
}

/** The tenant's workflows as an operator reads them through the codec server. */
async function decrypted({ operator }: TestWorkspace, found: unknown): Promise<string> {
  const plain = JSON.parse(
    JSON.stringify(found, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
  )
  const payloads = encodedIn(plain)
  while (payloads.length > 0) {
    const some = payloads.splice(0, 100)
    const reply = await call('POST', '/v1/codec/decode', { as: operator, body: { payloads: some } })
    for (const [index, { data = '' }] of (reply.body.payloads as Partial<Encoded>[]).entries()) {
      const payload = some[index]
      if (payload !== undefined) payload.data = Buffer.from(data, 'base64').toString()
    }
  }
  return JSON.stringify(plain)
}

/** All payloads, at any location. */
function encodedIn(value: unknown): Encoded[] {
  if (typeof value !== 'object' || value === null) return []
  const { metadata, data } = value as Partial<Encoded>
  if (typeof data === 'string' && typeof metadata === 'object') return [value as Encoded]
  return Object.values(value).flatMap(encodedIn)
}

/** Names of the platform's tables that contain one of the texts in any row. */
export async function tablesContaining(texts: readonly string[]): Promise<string[]> {
  const tables = await asSuperuser<{ schema: string; name: string }>(
    "select schemaname as schema, tablename as name from pg_tables where schemaname like 'tenon%'",
  )
  const found: string[] = []
  for (const table of tables) if (await holdsText(table, texts)) found.push(table.name)
  return found.toSorted()
}

/** Another test file may drop the table of a collection in the meantime. */
const UNDEFINED_TABLE = '42P01'

async function holdsText(
  { schema, name }: { schema: string; name: string },
  texts: readonly string[],
): Promise<boolean> {
  const [row] = await asSuperuser<{ there: boolean }>(
    // Each row is converted to text once, instead of once for each text.
    `select exists (select from (select t::text as row from ${schema}."${name}" t offset 0) r
      where exists (select from unnest($1::text[]) text where strpos(r.row, text) > 0)) as there`,
    [texts],
  ).catch((error) => {
    if (error.code === UNDEFINED_TABLE) return []
    throw error
  })
  return row?.there ?? false
}

/** All log files of the stack, the API and the worker. */
export async function logTexts(): Promise<string> {
  const { logs } = inject('tenon')
  const files = (await readdir(logs)).filter((name) => name.endsWith('.log'))
  const texts = await Promise.all(files.map((name) => readFile(join(logs, name), 'utf8')))
  return texts.join('\n')
}
