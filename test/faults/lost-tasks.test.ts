/** Local calls outlast the task that makes them, and a later task is lost with its worker: each effect happens once. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnPlatform, ownPlatform } from '../support/own-platform.ts'
import { Runs } from '../support/runs.ts'
import { call, eventually } from '../support/tenants.ts'

/** A task lasts ten seconds; before that, while local calls go on, it is ended and another one begins. */
const LONG_MS = 11_000

let own: OwnPlatform
let server: Server
let held: ServerResponse[] = []

const answer = (response: ServerResponse) =>
  response.setHeader('content-type', 'application/json').end('{"ok":true}')

beforeAll(async () => {
  own = await ownPlatform()
  server = createServer((request, response) => {
    if (request.url === '/long') setTimeout(() => answer(response), LONG_MS)
    else if (request.url === '/soon') setTimeout(() => answer(response), Math.random() * 200)
    else if (request.url === '/hold') held.push(response)
    else answer(response)
  })
  const port = own.started.running.echoPorts[0] ?? 0
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
}, 120_000)
afterAll(async () => {
  for (const response of held) response.destroy()
  server?.close()
  await own?.end()
})

test('whatever ends first when a task is done again, it makes what it made before', async () => {
  const { started, room } = own
  const runs = new Runs(room, started.running)
  const at = `http://127.0.0.1:${started.running.echoPorts[0]}`
  const local = 'metadata: { tenon: { local: true } }'
  const get = (name: string, path: string) =>
    `{ ${name}: { call: http, with: { method: GET, endpoint: '${at}${path}' }, ${local} } }`
  const put = (name: string, text: string) =>
    `{ ${name}: { call: collection.create, with: { name: made, document: { at: ${text} } } } }`
  const name = await runs.publish(`  - first:
      for: { each: n, in: '\${ [range(3)] }', concurrency: 3 }
      do: [ ${get('long', '/long')}, ${put('one', '\'${ "first \\($n)" }\'')} ]
  - breath: { wait: { milliseconds: 300 } }
  - second:
      for: { each: n, in: '\${ [range(12)] }', concurrency: 4 }
      do:
        - ${get('before', '/soon').slice(2, -2)}
        - ${put('two', '\'${ "second \\($n)" }\'').slice(2, -2)}
        - ${get('between', '/soon').slice(2, -2)}
        - ${put('three', '\'${ "third \\($n)" }\'').slice(2, -2)}
  - held: { call: http, with: { method: GET, endpoint: '${at}/hold' }, ${local} }
`)
  const id = await runs.start(name)
  await eventually(async () => (held.length > 0 ? true : undefined), 60_000)
  process.kill(started.stack.supervisor.pid('worker') ?? 0, 'SIGKILL')
  held = []
  await eventually(async () => (held.length > 0 ? true : undefined), 60_000)
  for (const response of held) answer(response)
  const run = await eventually(async () => {
    const shown = await runs.read(id)
    return shown.ended_at === null ? undefined : shown
  }, 30_000)
  expect(run.error).toBeNull()
  const { body } = await call('GET', '/v1/collections/made/documents?page[size]=50', {
    as: room.service,
    at: started.running,
  })
  const made = body.data.map((document: { at: string }) => document.at).sort()
  const each = (of: string, count: number) => Array.from({ length: count }, (_, n) => `${of} ${n}`)
  expect(made).toEqual([...each('first', 3), ...each('second', 12), ...each('third', 12)].sort())
}, 180_000)
