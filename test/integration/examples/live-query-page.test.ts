/** The page that docs/events.md shows for live queries, with a real EventSource and a connection that is lost. */

import { readFile } from 'node:fs/promises'
import { EventSource } from 'eventsource'
import { expect, inject, test } from 'vitest'
import { call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

type Tasks = ReadonlyMap<string, { readonly title: string }>

const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor

test('page of docs/events.md: has what matches, through changes and a lost connection', async () => {
  const text = await readFile('docs/events.md', 'utf8')
  const [, script = ''] = /## Live queries\n[\s\S]*?```js\n([\s\S]*?)```/.exec(text) ?? []
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const path = `/v1/collections/${unique('tasks')}`
  const add = async (title: string, status = 'open') =>
    (await call('POST', `${path}/documents`, { as: workspace.service, body: { title, status } })).body.id
  const first = await add('milk')
  await add('bread', 'done')
  const proxy = await startTcpProxy(new URL(inject('tenon').url))
  let shown: string[] = []
  const show = (tasks: Tasks) => {
    shown = [...tasks.values()].map(({ title }) => title).sort()
  }
  const streams: EventSource[] = []
  class Source extends EventSource {
    constructor(address: string) {
      super(address)
      streams.push(this)
    }
  }
  const given = {
    ...{ collection: `http://127.0.0.1:${proxy.port}${path}`, filter: 'status=eq.open' },
    ...{ apikey: workspace.anon['apikey'], show, EventSource: Source, fetch },
  }
  await new AsyncFunction(...Object.keys(given), script)(...Object.values(given))
  expect(shown).toEqual(['milk'])
  const shows = (...titles: string[]) =>
    eventually(async () => (shown.join() === titles.join() ? true : undefined))
  const second = await add('eggs')
  await shows('eggs', 'milk')
  proxy.drop()
  await call('PUT', `${path}/documents/${first}`, { as: workspace.service, body: { status: 'done' } })
  await call('PUT', `${path}/documents/${second}`, { as: workspace.service, body: { title: 'six eggs' } })
  await shows('six eggs')
  await call('DELETE', `${path}/documents/${second}`, { as: workspace.service })
  await shows()
  for (const stream of streams) stream.close()
  proxy.close()
})
