/** All that a run leaves behind, as text: raw histories over gRPC, visibility, tables, log files. */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { inject } from 'vitest'
import { asSuperuser, type Room } from './tenants.ts'

/** Histories, descriptions and visibility of all workflows of the room's tenant, or the history of one. */
export async function temporalTraces({ tenantId }: Room, one?: string): Promise<string> {
  const { env } = inject('tenon')
  const connection = await Connection.connect({ address: env['TEMPORAL_ADDRESS'] ?? '' })
  const client = new Client({ connection, namespace: env['TEMPORAL_NAMESPACE'] ?? 'default' })
  try {
    if (one !== undefined) return JSON.stringify(await client.workflow.getHandle(one).fetchHistory(), legible)
    const found: unknown[] = []
    for await (const listed of client.workflow.list({ query: `TenantId = "${tenantId}"` })) {
      const handle = client.workflow.getHandle(listed.workflowId, listed.runId)
      found.push(listed.raw, (await handle.describe()).raw, await handle.fetchHistory())
    }
    return JSON.stringify(found, legible)
  } finally {
    await connection.close()
  }
}

/** Of payloads, what they hold: as JSON they are base64. */
function legible(name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  return name === 'data' && typeof value === 'string' ? Buffer.from(value, 'base64').toString() : value
}

/** Names of the tables of the platform that have one of the texts in any row. */
export async function tablesWith(texts: readonly string[]): Promise<string[]> {
  const tables = await asSuperuser<{ schema: string; name: string }>(
    "select schemaname as schema, tablename as name from pg_tables where schemaname like 'tenon%'",
  )
  const found: string[] = []
  for (const { schema, name } of tables) {
    const [row] = await asSuperuser<{ there: boolean }>(
      `select exists (select from ${schema}."${name}" t
        where exists (select from unnest($1::text[]) text where strpos(t::text, text) > 0)) as there`,
      [texts],
    )
    if (row?.there) found.push(name)
  }
  return found.toSorted()
}

/** All log files of the stack, the API and the worker. */
export async function logTraces(): Promise<string> {
  const { logs } = inject('tenon')
  const files = (await readdir(logs)).filter((name) => name.endsWith('.log'))
  const texts = await Promise.all(files.map((name) => readFile(join(logs, name), 'utf8')))
  return texts.join('\n')
}
