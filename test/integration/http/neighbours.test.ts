/** Shared resources: a tenant that takes all it can get does not delay others. */

import { connect, type Socket } from 'node:net'
import { expect, inject, test } from 'vitest'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'
import { bucketOf, openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'
import { stopwatch } from '../../support/stopwatch.ts'

/** Requests an object and reads none of it. */
function slowReader(path: string, workspace: TestWorkspace): Socket {
  const { hostname, port } = new URL(inject('tenon').url)
  const socket = connect(Number(port), hostname).on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\napikey: ${workspace.service['apikey']}\r\n\r\n`)
  return socket.pause()
}

test('slow readers: objects of one tenant: occupy only its share of store connections', async () => {
  const [workspace, other] = await Promise.all([
    createTestWorkspaceWithStorage(),
    createTestWorkspaceWithStorage(),
  ])
  const large = `/v1/objects/${await bucketOf(workspace)}/large`
  const small = `/v1/objects/${await bucketOf(other)}/small`
  await call('PUT', large, { as: workspace.service, body: 'x'.repeat(30_000_000) })
  await call('PUT', small, { as: other.service, body: '{}' })
  const readers = Array.from({ length: 300 }, () => slowReader(large, workspace))
  await new Promise((done) => setTimeout(done, 2_000))
  for (let n = 0; n < 8; n++) expect((await call('GET', small, { as: other.service })).status).toBe(200)
  for (const reader of readers) reader.destroy()
  await eventually(
    async () => (await call('HEAD', large, { as: workspace.service })).status === 200 || undefined,
  )
})

/** Only the query of the test below has so many patterns. */
const CANCEL_SLOW = `select pg_cancel_backend(pid) from pg_stat_activity
  where usename = 'tenon_app' and state = 'active' and query like '%' || repeat('like lower(%', 5)`

test('slow queries: of one tenant: occupy only its share of database connections', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  await openCollectionsToAnon(workspace)
  const path = '/v1/collections/large'
  const text = 'x'.repeat(200_000)
  const writes = Array.from({ length: 40 }, () =>
    call('POST', `${path}/documents`, { as: workspace.service, body: { text } }),
  )
  await Promise.all(writes)
  const pattern = (n: number) => ({ text: { ilike: `%x%x%x%x%x%x%x%x%y${n}` } })
  const slow = { filter: { $or: Array.from({ length: 20 }, (_, n) => pattern(n)) } }
  const queries = Array.from({ length: 25 }, () =>
    call('POST', `${path}/query`, { as: workspace.anon, body: slow }),
  )
  await new Promise((done) => setTimeout(done, 500))
  const elapsedMs = stopwatch()
  const read = await call('GET', `${path}/documents`, { as: other.service })
  expect(read.status).toBe(200)
  expect(elapsedMs()).toBeLessThan(2_000)
  // Until their time is over, they would take all processors for ten more seconds.
  let isOver = false
  const answered = Promise.all(queries).finally(() => {
    isOver = true
  })
  await eventually(async () => {
    await asSuperuser(CANCEL_SLOW)
    return isOver || undefined
  })
  const statuses = (await answered).map(({ status }) => status)
  expect(statuses.filter((status) => ![200, 503, 504].includes(status))).toEqual([])
})

test('deployments: many at once: compiled one after the other, none is refused as invalid', async () => {
  const workspace = await createTestWorkspace()
  const lines = Array.from({ length: 6_000 }, (_, n) => `export const a${n} = [${n}, {x: ${n}}]`)
  const source = `export default () => 1\n${lines.join('\n')}`
  const deploy = (n: number) => {
    const body = { workspace_id: workspace.workspaceId, name: `f${n}`, source }
    return call('POST', '/v1/functions', { as: workspace.operator, body })
  }
  const replies = await Promise.all(Array.from({ length: repeated(20, 60) }, (_, n) => deploy(n)))
  expect(replies.filter(({ status }) => status !== 201 && status !== 503)).toEqual([])
})
