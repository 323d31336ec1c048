/** The examples of functions, deployed by the CLI: a secret, an npm package, an HTTP call and an event; and streamed CSV. */

import { jwtVerify } from 'jose'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const KEY = 'a key that the shop has given us'
const received: { authorization: string; body: string }[] = []
let shop: FakeServers
let workspace: TestWorkspace
const tenon = (args: string[], input = '') =>
  runCommand(args, { env: operatorEnv(workspace), callerDir: process.cwd(), input })

beforeAll(async () => {
  shop = await FakeServers.open({
    '/orders': ({ headers, body }) => {
      received.push({ authorization: String(headers['authorization']), body: String(body) })
      return { status: 201, json: {} }
    },
  })
  workspace = await createTestWorkspace()
  await configure(workspace, { egress: { allow: [shop.host] } })
})
afterAll(() => shop.close())

test('send-order: a new order is sent to the shop, signed with the secret, and marked as sent', async () => {
  await tenon(['secret', 'set', 'SHOP_KEY'], KEY)
  const config = JSON.stringify({ egress: [shop.host], env: { SHOP_URL: shop.origin } })
  const deployed = await tenon(['fn', 'deploy', 'examples/functions/send-order', '--config', config])
  expect(deployed.stderr).toBe('')
  const as = workspace.service
  // Its trigger hears events some time after the deployment was answered.
  const order = await eventually(async () => {
    const { body } = await call('POST', '/v1/collections/orders/documents', {
      as,
      body: { customer: 'Ada', total: 7 },
    })
    return eventually(
      async () => (received.some((one) => one.body.includes(body.id)) ? body : undefined),
      3_000,
    ).catch(() => undefined)
  }, 20_000)
  const sent = await eventually(async () => {
    const { body } = await call('GET', `/v1/collections/orders/documents/${order.id}`, { as })
    return body.sent === undefined ? undefined : body
  })
  expect(sent).toMatchObject({ customer: 'Ada', total: 7, sent: true })
  const [{ authorization } = { authorization: '' }] = received.filter(({ body }) => body.includes(order.id))
  const { payload } = await jwtVerify(authorization.slice('Bearer '.length), new TextEncoder().encode(KEY))
  expect(payload).toEqual({ order: order.id })
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
