/** Modes of imports, and CSV, leave the same documents in both stores. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { lines } from '../../support/clients/ndjson.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Imports into MongoDB are not tested: ${missing}.`)
const STORES = missing === undefined ? (['PostgreSQL', 'MongoDB'] as const) : (['PostgreSQL'] as const)

let ws: TestWorkspace
let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
beforeAll(async () => {
  ws = await createTestWorkspace()
  if (missing === undefined) mongo = await startMongoApi()
})
afterAll(() => mongo?.stop())

test.each(STORES)('imports: create, upsert, replace, CSV and a dry run: in %s', async (store) => {
  const at = (store === 'MongoDB' ? mongo?.running : undefined) ?? inject('tenon')
  const collection = `/v1/collections/${unique('modes')}`
  const id = '00000000-0000-4000-8000-000000000001'
  const send = async (query: string, body: string, type = 'application/x-ndjson') => {
    const headers = { 'content-type': type }
    return (await call('POST', `${collection}/import${query}`, { as: ws.service, body, headers, at })).body
  }
  const read = async () => (await call('GET', `${collection}/documents/${id}`, { as: ws.service, at })).body
  expect(await send('', lines({ id, a: 1, b: 1 }))).toMatchObject({ created: 1 })
  expect(await send('?mode=upsert', lines({ id, a: 2 }, { n: 1 }))).toMatchObject({ created: 1, updated: 1 })
  expect(await read()).toMatchObject({ a: 2, b: 1, _version: 2 })
  expect(await send('?mode=replace', `id,c\n${id},3\n`, 'text/csv')).toMatchObject({ updated: 1, failed: 0 })
  const { _created_at, _updated_at, ...rest } = await read()
  expect(rest).toEqual({ id, c: '3', _version: 3 })
  const dry = await send('?dry_run=true', lines({ d: 1 }))
  expect(dry).toMatchObject(store === 'PostgreSQL' ? { created: 1 } : { code: 'not_supported' })
})
