/** Entries of the audit log, and an API in the test's own process whose log entries can be waited for. */

import { expect, inject } from 'vitest'
import { buildApp } from '../../src/api/app.ts'
import { parseConfig } from '../../src/platform/config.ts'
import { openDoorkeeper } from '../../src/platform/identity/doorkeeper.ts'
import { openLog } from '../../src/platform/log.ts'
import { openPlatform, type Platform } from '../../src/platform/platform.ts'
import { asSuperuser, type Caller, call, type Room } from './tenants.ts'

export interface Entry {
  readonly seq: number
  readonly tenant_id: string
  readonly operation: string
  readonly outcome: string
  readonly request_id: string | null
  readonly prev_hash: string
  readonly hash: string
  readonly [member: string]: unknown
}

/** Newest first; the first page. */
export async function entriesOf(as: Caller, query: string): Promise<Entry[]> {
  const { body, status } = await call('GET', `/v1/audit?page[size]=200${query}`, { as })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.data
}

export const ofRoom = (room: Room, more = '') =>
  entriesOf(room.operator, `&tenant_id=${room.tenantId}${more}`)

export async function verified(room: Room, more = '') {
  const path = `/v1/audit/verify?tenant_id=${room.tenantId}${more}`
  return (await call('GET', path, { as: room.operator })).body
}

/** Straight from the table, of whatever chain. */
export async function recorded(like: string): Promise<Entry[]> {
  const rows = await asSuperuser<{ entry: Entry }>(
    "select entry::json as entry from tenon.audit where entry::jsonb ->> 'request_id' like $1 order by tenant_id, seq",
    [like],
  )
  return rows.map(({ entry }) => entry)
}

export interface Own {
  readonly url: string
  readonly platform: Platform
  /** Every line that was logged. */
  readonly lines: string[]
  close(): Promise<void>
}

export async function anOwnApp(env: Record<string, string> = {}): Promise<Own> {
  const lines: string[] = []
  const config = parseConfig({ ...inject('tenon').env, ...env })
  const log = openLog('info', 'test', { write: (line: string) => void lines.push(line) })
  const { platform, parts } = openPlatform(config, log)
  const app = await buildApp(platform, openDoorkeeper(config, parts))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    url,
    platform,
    lines,
    close: async () => {
      await app.close()
      await platform.close()
    },
  }
}
