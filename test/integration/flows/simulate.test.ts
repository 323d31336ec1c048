// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Flow simulations through the API: no side effects, located errors, bounded cost. */

import { beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const SOURCE = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - keep: { call: collection.create, with: { name: pets, document: { name: '\${ .name }' } } }
  - rest: { wait: P30D }
  - tell: { set: { id: '\${ .id }' } }`

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const simulate = (body: object) =>
  call('POST', `${workspace.flows}/simulate`, { as: workspace.operator, body })

test('wait of thirty days and a document call: completes at once, stores no document', async () => {
  const mocks = { keep: { output: { id: 'd1' } } }
  const { status, body } = await simulate({ source: SOURCE, input: { name: 'Rex' }, mocks })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    status: 'completed',
    output: { id: 'd1' },
    duration_ms: 30 * 86_400_000,
    coverage: { tasks: { entered: 3, total: 3, missed: [] }, ways: { taken: 0, total: 0, missed: [] } },
  })
  expect(body.trace[0]).toMatchObject({
    pointer: '/do/0/keep',
    phase: 'started',
    asks: { function: 'collection.create', arguments: { name: 'pets', document: { name: 'Rex' } } },
  })
  const { body: pets } = await call('GET', '/v1/collections/pets/documents', { as: workspace.service })
  expect(pets.data).toEqual([])
})

test('call without a mock: stops as waiting and names the missing mock', async () => {
  const { status, body } = await simulate({ source: SOURCE })
  expect({ status, state: body.status }).toEqual({ status: 200, state: 'waiting' })
  expect(body.wanted).toEqual([expect.objectContaining({ step: '/do/0/keep#0' })])
})

test('mocks taken from an execution: same output; a named mock wins; another workspace gets 404', async () => {
  const source = `document: { dsl: '1.0.3', namespace: n, name: recorded, version: '1.0.0' }
do:
  - each:
      for: { in: .names }
      do: [{ keep: { call: collection.create, with: { name: kept, document: { name: '\${ $item }' } }, output: { as: '\${ { last: .name } }' } } }]
  - lost:
      try: [{ find: { call: collection.get, with: { name: kept, id: 0198c0de-0000-7000-8000-000000000000 } } }]
      catch: { do: [{ note: { set: { status: '\${ $error.status }', last: '\${ .last }' } } }] }`
  await call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body: { source } })
  await call('POST', `${workspace.flows}/definitions/recorded/versions`, { as: workspace.operator, body: {} })
  const { body: run } = await call('POST', `${workspace.flows}/definitions/recorded/executions`, {
    as: workspace.operator,
    body: { input: { names: ['Ada', 'Bob'] } },
    headers: { prefer: 'wait=20' },
  })
  expect(run).toMatchObject({ status: 'completed', output: { status: 404, last: 'Bob' } })
  const { body } = await simulate({ source, mocks_from: run.id })
  expect(body).toMatchObject({ status: 'completed', output: run.output })
  expect(body.unused).toBeUndefined()
  const changed = { find: { output: { found: true } } }
  expect((await simulate({ source, mocks_from: run.id, mocks: changed })).body.output).toEqual(run.output)
  const shorter = { source, mocks_from: run.id, input: { names: ['Ada'] } }
  expect((await simulate(shorter)).body).toMatchObject({ output: { last: 'Ada' } })
  expect((await simulate(shorter)).body.unused).toBeUndefined()
  const own = await simulate({ ...shorter, mocks: changed })
  expect(own.body.unused).toMatchObject([{ mock: 'find' }])
  const named = { '/do/1/lost/try/0/find': { output: { found: true } } }
  expect((await simulate({ source, mocks_from: run.id, mocks: named })).body.output).toEqual({ found: true })
  const elsewhere = await createTestWorkspace()
  const foreign = await call('POST', `${elsewhere.flows}/simulate`, {
    as: elsewhere.operator,
    body: { source, mocks_from: run.id },
  })
  expect(foreign).toMatchObject({ status: 404, body: { code: 'not_found' } })
})

test('faulty definition: 422; faulty mocks: 400 with their pointer', async () => {
  expect(await simulate({ source: 'do: [' })).toMatchObject({ status: 422, body: { code: 'flow_invalid' } })
  expect(await simulate({ source: SOURCE, mocks: { keep: { outptu: 1 } } })).toMatchObject({
    status: 400,
    body: { code: 'validation_failed', errors: [{ name: 'mocks', pointer: '/mocks/keep/outptu' }] },
  })
  const unused = { keep: { output: { id: 'd1' } }, kep: { output: 1 } }
  expect((await simulate({ source: SOURCE, mocks: unused })).body.unused).toEqual([
    { mock: 'kep', reason: expect.stringContaining('is named `kep`'), hint: 'Did you mean keep?' },
  ])
})

test('costly simulation: ends with an error, other requests are answered meanwhile', async () => {
  const costly = `\${ [${Array.from({ length: 600 }, () => '.').join(', ')}] | . == . }`
  const source = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - a: { set: { x: '${costly}' } }
  - b: { wait: PT1S, then: a }`
  const running = simulate({ source })
  const waited: number[] = []
  let isOver = false
  void running.finally(() => {
    isOver = true
  })
  while (!isOver) {
    const before = performance.now()
    expect((await call('GET', '/healthz')).status).toBe(200)
    waited.push(performance.now() - before)
  }
  expect(await running).toMatchObject({ status: 400, body: { detail: expect.stringMatching(/too long/) } })
  expect(waited.length).toBeGreaterThan(5)
})

test('input, mocks or events nested too deeply: refused with validation_failed', async () => {
  const source = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do: [{ rest: { wait: PT1S } }]`
  const deep = `${'['.repeat(9_000)}${']'.repeat(9_000)}`
  const values = {
    input: deep,
    mocks: `{"rest": {"output": ${deep}}}`,
    events: `[{"event": {"data": ${deep}}}]`,
  }
  for (const [name, value] of Object.entries(values)) {
    const body = `{"source": ${JSON.stringify(source)}, "${name}": ${value}}`
    const answer = await call('POST', `${workspace.flows}/simulate`, { as: workspace.operator, body })
    expect({ name, code: answer.body.code }).toEqual({ name, code: 'validation_failed' })
  }
})
