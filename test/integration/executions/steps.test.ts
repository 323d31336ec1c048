// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Steps of executions as a resource: pages, filters, and the data of one step. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Executions, type Shown } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

let workspace: TestWorkspace
let executions: Executions
let server: FakeServers

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  server = await FakeServers.open({
    '/missing': () => ({ status: 404, json: {} }),
    '/big': () => ({ json: { text: 'y'.repeat(80_000) } }),
    '/hold': () => ({ hangs: true }),
    '/mirror': ({ headers }) => ({ json: { seen: headers.authorization } }),
  })
  const body = { workspace_id: workspace.workspaceId, egress: { allow: [server.host] } }
  expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(200)
})
afterAll(() => server.close())

const get = (id: string, tail: string): Promise<Reply> =>
  call('GET', `${workspace.flows}/executions/${id}/steps${tail}`, { as: workspace.operator })

/** The data of the first step of a task. */
async function dataOf(id: string, task: string): Promise<Shown> {
  const { body } = await get(id, `?task=${encodeURIComponent(task)}`)
  const step = await get(id, `/${body.data[0].id}`)
  expect(step.status, JSON.stringify(step.body)).toBe(200)
  return step.body
}

describe('pages of steps', () => {
  let id: string
  let execution: Shown
  beforeAll(async () => {
    const flow = await executions.publish(`  - each:
      for: { each: n, in: '\${ [range(700)] }', onError: continue }
      do:
        - odd: { if: '\${ $n % 100 == 99 }', raise: { error: { type: 'https://x.test/odd', status: 400, title: Odd } } }
        - keep: { set: { n: '\${ $n }' } }
  - last: { set: { done: true } }`)
    id = await executions.start(flow)
    execution = await executions.shown(id, 'completed')
  })

  test('more than 1,000 steps: the execution says how many and where, the pages have all of them once', async () => {
    const total = execution.steps_omitted.total
    expect(execution.steps).toHaveLength(1_000)
    expect(total).toBe(1 + 700 + 693 + 1)
    const seen: Shown[] = []
    for (let next: string | null = ''; next !== null; ) {
      const path: string = `${execution.steps_omitted.href}?page[size]=200${next && `&page[after]=${next}`}`
      const { body } = await call('GET', path, { as: workspace.operator })
      seen.push(...body.data)
      next = body.page.next
    }
    expect(seen.map((step) => Number(step.id))).toEqual(Array.from({ length: total }, (_, n) => n))
    expect(seen.at(-1)).toMatchObject({
      name: 'last',
      kind: 'set',
      task: '/do/1/last',
      path: '/do/last',
      status: 'completed',
      attempts: 1,
      started_at: expect.any(String),
      ended_at: expect.any(String),
    })
  })

  test('filters: status, task by name and by pointer, iteration', async () => {
    const faulted = await get(id, '?status=faulted')
    expect(faulted.body.data).toHaveLength(7)
    expect(faulted.body.data[0]).toMatchObject({ name: 'odd', error: { title: 'Odd' } })
    expect((await get(id, '?task=last')).body.data).toHaveLength(1)
    const pointer = encodeURIComponent('/do/0/each/do/1/keep')
    const { body } = await get(id, `?task=${pointer}&iteration=5`)
    expect(body.data).toMatchObject([{ task: '/do/0/each/do/1/keep', iteration: 5 }])
    expect((await get(id, '?task=nothing')).body).toMatchObject({ data: [], page: { has_more: false } })
  })

  test('invalid requests: refused with the reason', async () => {
    expect(await get(id, '?status=held')).toMatchObject({ status: 400 })
    expect(await get(id, '?page[size]=201')).toMatchObject({ status: 400 })
    expect(await get(id, '?page[after]=c1_YWJj')).toMatchObject({
      status: 400,
      body: { code: 'cursor_invalid' },
    })
    expect(await get(id, '/x')).toMatchObject({ status: 400 })
    expect(await get(id, '/999999999')).toMatchObject({ status: 404 })
    expect(await get(`${id.slice(0, -3)}000`, '')).toMatchObject({ status: 404 })
  })

  test('short execution: has all its steps, says nothing about others', async () => {
    const short = await executions.start(await executions.publish('  - a: { set: { x: 1 } }'))
    expect(await executions.shown(short, 'completed')).not.toHaveProperty('steps_omitted')
  })
})

describe('data of a step', () => {
  test('call, set and loop: input, arguments and output of each, also if they share a value', async () => {
    const flow = await executions.publish(`  - ask:
      input: { from: '\${ { path: .path } }' }
      call: http
      with: { method: get, endpoint: '${server.origin}/echo', query: { p: '\${ .path }' } }
      output: { as: '\${ { url } }' }
  - each:
      for: { each: n, in: '\${ [1, 2] }' }
      do: [{ add: { set: { n: '\${ $n }', url: '\${ .url }' } } }]`)
    const id = await executions.start(flow, { input: { path: 'a', other: 1 } })
    await executions.shown(id, 'completed')
    expect(await dataOf(id, 'ask')).toMatchObject({
      input: { path: 'a' },
      arguments: { method: 'GET', endpoint: `${server.origin}/echo`, query: { p: 'a' } },
      output: { url: '/echo?p=a' },
      truncated: [],
      attempts: 1,
    })
    expect(await dataOf(id, 'each')).toMatchObject({
      input: { url: '/echo?p=a' },
      output: { n: 2, url: '/echo?p=a' },
    })
    expect(await dataOf(id, 'add')).toMatchObject({
      input: { url: '/echo?p=a' },
      output: { n: 1, url: '/echo?p=a' },
    })
  })

  test('wrong export of a saga: the compensating call shows that its path has no id', async () => {
    const flow = await executions.publish(`  - reserve:
      call: http
      with: { method: post, endpoint: '${server.origin}/echo' }
      output: { as: '\${ {} }' }
      compensate:
        - release: { call: http, with: { method: delete, endpoint: '${server.origin}/echo', query: { id: '\${ .output.id // "none" }' } } }
  - charge: { call: http, with: { method: post, endpoint: '${server.origin}/missing' } }`)
    const id = await executions.start(flow)
    await executions.shown(id, 'faulted')
    expect(await dataOf(id, 'release')).toMatchObject({
      arguments: { method: 'DELETE', query: { id: 'none' } },
      status: 'completed',
    })
    const charge = await dataOf(id, 'charge')
    expect(charge).toMatchObject({ status: 'faulted', error: { status: 404 }, input: {} })
    expect(charge).not.toHaveProperty('output')
  })

  test('large values: shortened, and named as such', async () => {
    const flow =
      await executions.publish(`  - big: { call: http, with: { method: get, endpoint: '${server.origin}/big' } }
  - cut: { set: { list: '\${ [range(5000)] }', pair: '\${ "😀" * 4000 }' } }`)
    const id = await executions.start(flow, { input: { text: 'x'.repeat(50_000), end: 1 } })
    await executions.shown(id, 'completed')
    const big = await dataOf(id, 'big')
    expect(big.truncated.toSorted()).toEqual(['input', 'output'])
    expect(big.input.text).toMatch(/^x{4000,4096}…$/)
    expect(big.output.text).toMatch(/^y{4000,4096}…$/)
    const cut = await dataOf(id, 'cut')
    expect(cut.truncated.toSorted()).toEqual(['input', 'output'])
    expect(cut.output.list.length).toBeLessThan(600)
    expect(JSON.stringify(cut).length).toBeLessThan(14_000)
  })

  test('secrets: masked in arguments and in what the server echoes', async () => {
    const secret = 'a-very-secret-value'
    const path = `${workspace.flows}/secrets/key`
    const made = await call('PUT', path, { as: workspace.operator, body: { value: secret } })
    expect(made.status, JSON.stringify(made.body)).toBeLessThan(300)
    const flow = await executions.publish(
      `  - ask:
      call: http
      with: { method: get, endpoint: '${server.origin}/mirror', headers: { authorization: '\${ "Bearer " + $secrets.key }' } }
  - keep: { set: { seen: '\${ .seen }', long: '\${ ("z" * 4030) + $secrets.key }' } }`,
      { more: 'use: { secrets: [key] }\n' },
    )
    const id = await executions.start(flow)
    await executions.shown(id, 'completed')
    const ask = await dataOf(id, 'ask')
    expect(ask.arguments.headers).toEqual({ authorization: 'Bearer ***' })
    const all = JSON.stringify([ask, await dataOf(id, 'keep'), await executions.read(id)])
    expect(all).not.toContain(secret)
    expect(all).not.toContain('tenonsecret')
  })

  test('held call that is retried: its error with the answer, then attempts, times and the new input', async () => {
    const flow = await executions.publish(
      `  - ask: { call: http, with: { method: get, endpoint: '${server.origin}/{path}' } }`,
      { more: 'onFault: hold\n' },
    )
    const id = await executions.start(flow, { input: { path: 'missing' } })
    await executions.shown(id, 'suspended')
    const held = await dataOf(id, 'ask')
    expect(held).toMatchObject({ attempts: 1, error: { status: 404, response: { status: 404 } } })
    expect(held.arguments.endpoint).toBe(`${server.origin}/missing`)
    const patched = await executions.send(id, 'patch-data', { step: 'ask', input: { path: 'echo' } })
    expect(patched.status, JSON.stringify(patched.body)).toBe(200)
    await executions.send(id, 'retry-step')
    await executions.shown(id, 'completed')
    const ask = await dataOf(id, 'ask')
    expect(ask).toMatchObject({
      status: 'completed',
      attempts: 2,
      input: { path: 'echo' },
      arguments: { endpoint: `${server.origin}/echo` },
      output: { url: '/echo' },
    })
    expect(ask).not.toHaveProperty('error')
    expect(Date.parse(ask.ended_at)).toBeGreaterThanOrEqual(Date.parse(ask.started_at))
    expect(ask.started_at).toBe(held.started_at)
  })

  test('running call: its arguments are visible before it ends', async () => {
    const flow = await executions.publish(
      `  - slow: { call: http, with: { method: post, endpoint: '${server.origin}/hold', body: { a: 1 } } }`,
    )
    const id = await executions.start(flow)
    await executions.until(id, ({ steps }) => steps.length === 1)
    expect(await dataOf(id, 'slow')).toMatchObject({
      status: 'running',
      ended_at: null,
      arguments: { body: { a: 1 } },
    })
    await executions.send(id, 'cancel')
    await executions.ended(id)
  })
})
