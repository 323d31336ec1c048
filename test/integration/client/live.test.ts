/** Live lists against the real API: what they show is what the server has, whatever happens to connections. */

import { beforeAll, expect, inject, test } from 'vitest'
import { type Client, createClient, type LiveSnapshot } from '../../../client/src/index.ts'
import { createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let ws: TestWorkspace
let tenon: Client
beforeAll(async () => {
  ws = await createTestWorkspace()
  tenon = createClient({ url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' })
})

test('documents enter, change, leave and are deleted, in the order of the query', async () => {
  const tasks = tenon.from(unique('tasks'))
  const first = await tasks.create({ title: 'b', status: 'open' })
  await tasks.create({ title: 'z', status: 'done' })
  const seen: LiveSnapshot<unknown>[] = []
  const list = tasks.where({ status: 'open' }).order('title').live()
  const stop = list.subscribe((snapshot) => seen.push(snapshot))
  const titles = () => list.snapshot.documents.map((document) => document['title'])
  await expect.poll(() => [list.snapshot.state, titles()]).toEqual(['live', ['b']])
  const second = await tasks.create({ title: 'a', status: 'open' })
  await expect.poll(() => titles()).toEqual(['a', 'b'])
  await tasks.update(second.id, { title: 'c' })
  await expect.poll(() => titles()).toEqual(['b', 'c'])
  await tasks.update(first.id, { status: 'done' })
  await expect.poll(() => titles()).toEqual(['c'])
  await tasks.delete(second.id)
  await expect.poll(() => titles()).toEqual([])
  stop()
  await expect.poll(() => list.snapshot.state).toBe('ended')
  expect(list.snapshot.error).toBeUndefined()
  expect(seen.length).toBeGreaterThan(4)
})
