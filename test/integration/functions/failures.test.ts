/** Checks functions and metrics: deploy, configure, invoke, fail in every way, be counted. */

import { beforeAll, describe, expect, test } from 'vitest'
import { stopwatch } from '../../support/stopwatch.ts'
import { anonymous, expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, expectUnaffected, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

// Assumption: a function is the default export of a module and takes its input as first argument.
const source = (body: string) =>
  `export default async function handle(input: Record<string, unknown>): Promise<unknown> { ${body} }`

function deploy(
  who: 'a' | 'b',
  name: string,
  body: string,
  more: Record<string, unknown> = {},
): Promise<Reply> {
  const { admin, workspace } = world[who]
  return admin.post('/v1/functions', { workspace_id: workspace, name, source: source(body), ...more })
}

const invoke = (id: string, input: unknown = {}, headers: Record<string, string> = {}) =>
  world.a.service.post(`/v1/functions/${id}/invoke`, input, headers)

describe('functions', () => {
  let id = ''

  test('deploy: valid source: 201 with id and version', async () => {
    const body = `const name: string = String(input['name']); return { greeting: 'hi ' + name, mark: '${world.a.mark}' }`
    const reply = await deploy('a', 'greet', body)
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({ id: expect.stringMatching(/^fn_/), name: 'greet', version: 1 })
    id = str(reply, 'id')
  })

  test('invoke: by id: bare result, run id in x-run-id', async () => {
    const reply = await invoke(id, { name: 'Ada' })
    expectStatus(reply, 200)
    expect(reply.body).toEqual({ greeting: 'hi Ada', mark: world.a.mark })
    expect(reply.headers.get('x-run-id')).toMatch(/^run_/)
  })

  test('invoke: by name in the workspace: same as by id', async () => {
    expect(get(await invoke('greet', { name: 'Ben' }), 'greeting')).toBe('hi Ben')
  })

  test.each([
    ['null', null],
    ['[1,2]', [1, 2]],
    ['"text"', 'text'],
    ['0', 0],
    ['false', false],
  ])('invoke: result %s: any JSON is returned', async (text, expected) => {
    const name = `any-${text.replaceAll(/\W/g, '')}`
    expectStatus(await deploy('a', name, `return ${text}`), 201)
    const reply = await invoke(name)
    expectStatus(reply, 200)
    expect(reply.body).toEqual(expected)
  })

  test('invoke: function throws: 502 function_error with its message, without a stack', async () => {
    await deploy('a', 'thrower', `throw new Error('no stock left')`)
    const reply = await invoke('thrower')
    expectProblem(reply, 502, 'function_error')
    expect(reply.text).toContain('no stock left')
    await expectUnaffected(world)
  })

  test('deploy: invalid TypeScript: refused', async () => {
    const { a } = world
    const sent = { workspace_id: a.workspace, name: 'broken', source: 'export default async (' }
    const reply = await a.admin.post('/v1/functions', sent)
    expectProblem(reply, reply.status === 400 ? 400 : 422)
  })

  test('configure: time limit set, then an endless loop: 504 function_timeout', async () => {
    const made = await deploy('a', 'looper', 'while (true) {}')
    // Assumption: the field is `timeout`, a duration as everywhere else.
    const set = await world.a.admin.put(`/v1/functions/${str(made, 'id')}/config`, { timeout: '1s' })
    expectStatus(set, 200)
    const elapsedMs = stopwatch()
    expectProblem(await invoke('looper'), 504, 'function_timeout')
    expect(elapsedMs()).toBeLessThan(8000)
    await expectUnaffected(world)
  })

  test('invoke: another function loops: the other tenant is served', async () => {
    expectStatus(await deploy('b', 'quick', 'return 1'), 201)
    const loops = [invoke('looper'), invoke('looper')]
    const elapsedMs = stopwatch()
    expectStatus(await world.b.service.post('/v1/functions/quick/invoke', {}), 200)
    expect(elapsedMs()).toBeLessThan(5000)
    for (const reply of await Promise.all(loops)) expectProblem(reply, 504, 'function_timeout')
  })

  test('invoke: allocates 2 GB at once: 502 function_out_of_memory', async () => {
    await deploy('a', 'hog', 'const all = new Uint8Array(2 ** 31).fill(1); return all.length')
    expectProblem(await invoke('hog'), 502, 'function_out_of_memory')
    await expectUnaffected(world)
  })

  test('invoke: allocates gradually: 502 function_out_of_memory', async () => {
    const body = 'const all: string[] = []; for (let n = 0; ; n++) all.push(String(n).repeat(10000))'
    await deploy('a', 'creeper', body)
    expectProblem(await invoke('creeper'), 502, 'function_out_of_memory')
    await expectUnaffected(world)
  })

  test.each([
    ['the environment of the platform', 'return JSON.stringify(globalThis.process?.env ?? {})'],
    ['files', `const fs = await import('node:fs'); return fs.readFileSync('/etc/passwd', 'utf8')`],
    ['the host by way of a constructor', `return input.constructor.constructor('return process')().env`],
  ])('sandbox: reads %s: denied', async (what, body) => {
    const name = `prober-${what.length}`
    const made = await deploy('a', name, body)
    // May be refused on deployment or on invocation.
    expectStatus(made, 201, 400, 422)
    const reply = made.status === 201 ? await invoke(name) : made
    expect(reply.text).not.toMatch(/root:|postgres|GATEWAY_SECRET|MASTER_KEY|DATABASE_URL/)
    await expectUnaffected(world)
  })

  test('invoke: missing function: 404', async () => {
    expectProblem(await invoke('nobody'), 404)
  })

  test('invoke: function of another tenant: 404 identical to that of a missing one', async () => {
    const none = `${id.slice(0, -4)}zzzz`
    const seen = await world.b.service.post(`/v1/functions/${id}/invoke`, {})
    const missing = await world.b.service.post(`/v1/functions/${none}/invoke`, {})
    expectProblem(seen, 404)
    expect(anonymous(seen, id)).toBe(anonymous(missing, none))
    expectProblem(await world.b.service.post('/v1/functions/greet/invoke', {}), 404)
  })

  test('invoke: input is not JSON: 400', async () => {
    const headers = { 'content-type': 'application/json' }
    expect(id).not.toBe('')
    expectProblem(
      await world.a.service.send('POST', `/v1/functions/${id}/invoke`, { raw: '{"a":', headers }),
      400,
    )
  })

  test('deploy: existing name: next version', async () => {
    const reply = await deploy('a', 'greet', 'return 2')
    // Assumption: the same name in the same workspace is a new version, not a conflict.
    expectStatus(reply, 201, 200)
    expect(reply.body).toMatchObject({ id, version: 2 })
    expect((await invoke('greet')).body).toBe(2)
  })
})

describe('metrics', () => {
  const sum = (reply: Reply): number =>
    list(reply, 'series')
      .flatMap((series) => list(series, 'points'))
      .reduce<number>((total, point) => total + Number(get(point, '1')), 0)

  // Assumption: the metrics are called `requests`, `errors` and `latency`.
  const query = (who: 'a' | 'b', metric: string) =>
    world[who].service.get(`/v1/analytics/query?metric=${metric}&window=1h`)

  test('metrics: requests: series of points with unit, window and step', async () => {
    for (let n = 0; n < 25; n++)
      expectStatus(await world.a.service.get('/v1/collections/c/documents'), 200, 404)
    await expect.poll(async () => sum(await query('a', 'requests')), { timeout: 20_000 }).toBeGreaterThan(24)
    const reply = await query('a', 'requests')
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({
      metric: 'requests',
      unit: expect.any(String),
      window: '1h',
      step: expect.anything(),
    })
  })

  test('metrics: errors: counted', async () => {
    for (let n = 0; n < 5; n++) await world.a.service.get('/v1/collections/c/documents?page[size]=0')
    await expect.poll(async () => sum(await query('a', 'errors')), { timeout: 20_000 }).toBeGreaterThan(4)
  })

  test('metrics: latency: measured', async () => {
    await expect.poll(async () => sum(await query('a', 'latency')), { timeout: 20_000 }).toBeGreaterThan(0)
  })

  test('metrics: requests of A: not counted for B', async () => {
    const before = sum(await query('b', 'requests'))
    for (let n = 0; n < 40; n++) await world.a.service.get('/v1/collections/c/documents')
    await expect.poll(async () => sum(await query('a', 'requests')), { timeout: 20_000 }).toBeGreaterThan(64)
    expect(sum(await query('b', 'requests')) - before).toBeLessThan(20)
  })

  test('metrics: unknown metric: 404 with similar names', async () => {
    const reply = await query('a', 'request')
    expectProblem(reply, 404)
    expect(reply.text).toContain('requests')
  })

  test.each(['1y', '-1h', 'h', '0h', '999999d', ''])('metrics: window %j: 400', async (window) => {
    expectProblem(
      await world.a.service.get(`/v1/analytics/query?metric=requests&window=${encodeURIComponent(window)}`),
      400,
    )
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
