/** The examples of functions, deployed by the CLI: a secret, an npm package, an HTTP call and an event; and streamed CSV. */

import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { jwtVerify } from 'jose'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const KEY = 'a key that the shop has given us'
/** The bodies of requests to the shop. */
const received: string[] = []
let isRefused = false
let shop: FakeServers
let workspace: TestWorkspace
const tenon = (args: string[], input = '') =>
  runCommand(args, { env: operatorEnv(workspace), callerDir: process.cwd(), input })

beforeAll(async () => {
  shop = await FakeServers.open({
    '/orders': ({ body }) => {
      received.push(body)
      return { status: isRefused ? 503 : 201, json: {} }
    },
  })
  workspace = await createTestWorkspace()
  await configure(workspace, { egress: { allow: [shop.host] } })
})
afterAll(() => shop.close())

const SEND_ORDER = 'examples/functions/send-order/index.ts'

test('send-order: has at most ten lines of code, of at most 120 characters, and is the one in the documentation', async () => {
  const source = await readFile(SEND_ORDER, 'utf8')
  const lines = source.split('\n').filter((line) => !/^\s*($|\/[/*]|\*)/.test(line))
  expect(lines.length).toBeLessThanOrEqual(10)
  expect(lines.filter((line) => line.length > 120)).toEqual([])
  expect(await readFile('docs/functions.md', 'utf8')).toContain(`\`\`\`ts\n${source}\`\`\``)
})

/** The same folder for a shop on this machine, with the packages of the project. */
async function sendOrderTo({ origin, host }: FakeServers): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-send-order-'))
  const source = await readFile(SEND_ORDER, 'utf8')
  await mkdir(join(folder, 'send-order'))
  await symlink(resolve('node_modules'), join(folder, 'node_modules'))
  const local = source.replace('https://shop.example.com', origin).replace('shop.example.com:443', host)
  await writeFile(join(folder, 'send-order', 'index.ts'), local)
  return folder
}

test('send-order: orders from the first one on are sent to the shop, signed with the secret; refused ones are dead letters', async () => {
  const folder = await sendOrderTo(shop)
  try {
    await tenon(['secret', 'set', 'SHOP_KEY'], KEY)
    const deployed = await tenon(['fn', 'deploy', join(folder, 'send-order')])
    expect([deployed.code, deployed.stderr]).toEqual([0, ''])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  const as = workspace.service
  const order = async (total: number) =>
    (await call('POST', '/v1/collections/orders/documents', { as, body: { customer: 'Ada', total } })).body
  const first = await order(7)
  const jwt = await eventually(async () => received[0])
  const { payload } = await jwtVerify(jwt, new TextEncoder().encode(KEY))
  expect(payload).toEqual({ order: { id: first.id, version: 1, document: { customer: 'Ada', total: 7 } } })
  isRefused = true
  await order(8)
  const listRuns = async () => (await tenon(['fn', 'runs', 'send-order'])).stdout
  const failure = /failed +v1 +event .*function_error at index\.ts:12:\d+: The shop has answered 503\./
  await eventually(async () => (failure.test(await listRuns()) ? true : undefined))
  expect(received).toHaveLength(2)
})

test('orders-csv: the orders of a status as CSV, page by page', async () => {
  const as = workspace.service
  const lines = Array.from({ length: 450 }, (_, n) =>
    JSON.stringify({ customer: `"${n}"`, total: n, status: 'open' }),
  )
  await call('POST', '/v1/collections/orders/import', {
    as,
    body: lines.join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })
  expect((await tenon(['fn', 'deploy', 'examples/functions/orders-csv'])).stderr).toBe('')
  const url = `${inject('tenon').url}/v1/functions/orders-csv/http/?status=open`
  const response = await fetch(url, { headers: { apikey: String(workspace.service['apikey']) } })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/csv; charset=utf-8'])
  const [head, ...rows] = (await response.text()).trimEnd().split('\r\n')
  expect(head).toBe('id,customer,total')
  expect(rows).toHaveLength(450)
  expect(rows.every((row) => /^"[0-9a-f-]{36}","""\d+""","\d+"$/.test(row))).toBe(true)
})
