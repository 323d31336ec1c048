/** Measures the typed client against bare `fetch`, and a live list while its documents change. */

import { createClient } from '../client/src/index.ts'
import type { Started } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { interleaved, print, sized } from './measure.ts'
import { runSections } from './sections.ts'

const ROUNDS = sized(1_000, 50)
const CHANGES_PER_S = 500
const SECONDS = sized(10, 1)

/** Prints all results; takes about half a minute. */
export const client = (names: readonly string[]): Promise<void> => runSections({ calls, live }, names)

async function calls({ running }: Started): Promise<void> {
  const { url, apikey } = await createTestWorkspace(running)
  const notes = createClient({ url, apikey }).from('notes')
  const { id } = await notes.create({ text: 'hello', n: 1 })
  const address = `${url}/v1/collections/notes/documents`
  const headers = { apikey, 'content-type': 'application/json' }
  const send = async (path: string, init: RequestInit = {}) =>
    (await fetch(`${address}${path}`, { headers, ...init })).json()
  const body = JSON.stringify({ text: 'hello', n: 2 })
  const figures = await interleaved(ROUNDS, {
    'get, bare fetch': () => send(`/${id}`),
    'get, client': () => notes.get(id),
    'create, bare fetch': () => send('', { method: 'POST', body }),
    'create, client': () => notes.create({ text: 'hello', n: 2 }),
  })
  print('request, one at a time', 'p50 ms', 'p99 ms', '× bare fetch')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    const [verb] = name.split(',')
    const bare = figures[`${verb}, bare fetch` as keyof typeof figures].p50Ms
    print(name, p50Ms, p99Ms, p50Ms / bare)
  }
}

/** Changes one of 200 documents at a steady rate, and looks whether the list has all of it in the end. */
async function live({ running }: Started): Promise<void> {
  const { url, apikey } = await createTestWorkspace(running)
  const tenon = createClient({ url, apikey })
  const rows = tenon.from('rows')
  const ids: string[] = []
  for (let n = 0; n < 200; n++) ids.push((await rows.create({ n: 0 })).id)
  const list = rows.order('n').live()
  let paints = 0
  const stop = list.subscribe(() => {
    paints += 1
  })
  while (list.snapshot.state !== 'live') await new Promise((done) => setTimeout(done, 20))
  const last = new Map<string, number>()
  const began = performance.now()
  for (let tick = 0; tick < SECONDS * 10; tick++) {
    const changed = ids
      .slice((tick * 50) % 200)
      .concat(ids)
      .slice(0, CHANGES_PER_S / 10)
    const ops = changed.map((id, at) => {
      const n = tick * 100 + at
      last.set(id, n)
      return { op: 'update' as const, collection: 'rows', id, data: { n } }
    })
    await tenon.batch.run({ ops } as never)
    const dueMs = (tick + 1) * 100 - (performance.now() - began)
    if (dueMs > 0) await new Promise((done) => setTimeout(done, dueMs))
  }
  const seconds = (performance.now() - began) / 1_000
  const isComplete = () =>
    list.snapshot.documents.filter((document) => (last.get(String(document['id'])) ?? 0) === document['n'])
      .length === 200
  const ended = performance.now()
  while (!isComplete() && performance.now() - ended < 10_000)
    await new Promise((done) => setTimeout(done, 10))
  print('live list of 200 documents', 'changes per s', 'paints per s', 'ms until complete', 'lost')
  const lost =
    200 -
    list.snapshot.documents.filter((document) => (last.get(String(document['id'])) ?? 0) === document['n'])
      .length
  print(
    'changes of 50 at a time',
    (SECONDS * CHANGES_PER_S) / seconds,
    paints / seconds,
    performance.now() - ended,
    lost,
  )
  stop()
}
