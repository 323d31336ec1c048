/**
 * Local calls that outlast a workflow task, a workflow task lost with its worker, calls that hang: each effect
 * happens once.
 */

import { createServer, type Server } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Executions } from '../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually } from '../support/fixtures/tenants.ts'
import { TableBarrier } from '../support/servers/table-barrier.ts'
import { killServer, type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

/** Longer than a workflow task, which ends and is followed by another while local calls run. */
const LONG_MS = 11_000

let own: OwnPlatform
let server: Server
let gates: TableBarrier[] = []

beforeAll(async () => {
  own = await sharedPlatform()
  server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json')
    // Sometimes too slow for an inline call; when repeated it may be fast.
    setTimeout(() => response.end('{"ok":true}'), Math.random() < 0.05 ? 400 : Math.random() * 100)
  })
  const port = own.started.running.echoPorts[0] ?? 0
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  gates = await Promise.all(['long', 'hold', 'late'].map((name) => TableBarrier.ofCollection(own, name)))
})
afterAll(async () => {
  server?.close()
  await Promise.all(gates.map((gate) => gate.open()))
  await own?.end()
})

test('lost workflow task repeated with calls ending in another order: each document is created once', async () => {
  const { started, workspace } = own
  const executions = new Executions(workspace, started.running)
  const at = `http://127.0.0.1:${started.running.echoPorts[0]}`
  const [long, hold] = gates
  if (long === undefined || hold === undefined) throw new Error('no gates')
  const soon = (name: string) => `${name}: { call: http, with: { method: GET, endpoint: '${at}/soon' } }`
  const read = (name: string, collection: string) =>
    `${name}: { call: collection.list, with: { name: ${collection} } }`
  const put = (name: string, text: string) =>
    `${name}: { call: collection.create, with: { name: made, document: { at: ${text} } } }`
  const name = await executions.publish(`  - first:
      for: { each: n, in: '\${ [range(3)] }', concurrency: 3 }
      do:
        - ${read('gate', 'long')}
        - ${put('one', '\'${ "first \\($n)" }\'')}
  - breath: { wait: { milliseconds: 300 } }
  - second:
      for: { each: n, in: '\${ [range(8)] }', concurrency: 4 }
      do:
        - ${soon('before')}
        - ${put('two', '\'${ "second \\($n)" }\'')}
        - ${soon('between')}
        - ${put('three', '\'${ "third \\($n)" }\'')}
  - ${read('held', 'hold')}
`)
  const id = await executions.start(name)
  await eventually(async () => (await long.waiting()).length || undefined, 60_000)
  await new Promise((done) => setTimeout(done, LONG_MS))
  await long.open()
  const before = await eventually(async () => {
    const pids = await hold.waiting()
    return pids.length > 0 ? pids : undefined
  }, 60_000)
  killServer(started, 'worker')
  await eventually(async () => (await hold.waiting()).find((pid) => !before.includes(pid)), 60_000)
  await hold.open()
  const run = await eventually(async () => {
    const record = await executions.read(id)
    return record.ended_at === null ? undefined : record
  }, 30_000)
  expect(run.error).toBeNull()
  const { body } = await call('GET', '/v1/collections/made/documents?page[size]=50', {
    as: workspace.service,
    at: started.running,
  })
  const made = body.data.map((document: { at: string }) => document.at).sort()
  const each = (of: string, count: number) => Array.from({ length: count }, (_, n) => `${of} ${n}`)
  expect(made).toEqual([...each('first', 3), ...each('second', 8), ...each('third', 8)].sort())
})

test('lost workflow task of an execution that yields its slot: each document is created once', async () => {
  const { started, workspace } = own
  const executions = new Executions(workspace, started.running)
  const [, , late] = gates
  if (late === undefined) throw new Error('no gate')
  const put = (name: string) =>
    `  - ${name}: { call: collection.create, with: { name: once, document: { at: ${name} } } }\n`
  const source = `  - breath: { wait: { milliseconds: 300 } }\n${['a', 'b', 'c', 'd'].map(put).join('')}`
  const held = '  - held: { call: collection.list, with: { name: late } }\n'
  const name = await executions.publish(source + held, {
    more: 'concurrency: { limit: 5, holdWhileWaiting: false }\n',
  })
  const id = await executions.start(name)
  const before = await eventually(async () => {
    const pids = await late.waiting()
    return pids.length > 0 ? pids : undefined
  })
  killServer(started, 'worker')
  await eventually(async () => (await late.waiting()).find((pid) => !before.includes(pid)), 60_000)
  await late.open()
  await eventually(
    async () => ((await executions.read(id)).status === 'completed' ? true : undefined),
    30_000,
  )
  const path = '/v1/collections/once/documents?page[size]=50'
  const { body } = await call('GET', path, { as: workspace.service, at: started.running })
  expect(body.data.map(({ at }: { at: string }) => at).toSorted()).toEqual(['a', 'b', 'c', 'd'])
})

test("inline request that hangs on the platform's side: repeated as an activity, the execution completes", async () => {
  const { started } = own
  const executions = new Executions(await createTestWorkspace(started.running), started.running)
  const at = `http://127.0.0.1:${started.running.echoPorts[0]}`
  const name = await executions.publish(
    `  - breath: { wait: { milliseconds: 500 } }\n  - get: { call: http, with: { method: GET, endpoint: '${at}/soon' } }\n`,
  )
  const id = await executions.start(name)
  // The egress allowlist of a workspace is read before its first request.
  const gate = await TableBarrier.at(own, 'tenon.services')
  try {
    await eventually(async () => (await gate.waiting()).length || undefined)
    await new Promise((done) => setTimeout(done, 6_000))
  } finally {
    await gate.open()
  }
  expect(await executions.ended(id)).toMatchObject({ status: 'completed', output: { ok: true } })
})
