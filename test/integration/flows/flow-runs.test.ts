/** Checks flows: validate, create, publish, execute; every kind of task and platform call. */

import { beforeAll, describe, expect, test } from 'vitest'
import { slowdown } from '../../support/stopwatch.ts'
import { anonymous, expectProblem, expectStatus, get, list, type Reply, Stream, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, expectUnaffected, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World
let base: string

beforeAll(async () => {
  world = await createTenantPair({ stores: true })
  base = `/v1/flows/workspaces/${world.a.workspace}`
})

/** A flow with that name and the tasks given below `do:`. */
function flow(name: string, tasks: string): string {
  const body = tasks.replace(/^\n/, '').trimEnd()
  return `document: {dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0'}\ndo:\n${body}\n`
}

async function publish(name: string, tasks: string): Promise<Reply> {
  const made = await world.a.admin.send('POST', `${base}/definitions`, {
    raw: flow(name, tasks),
    headers: { 'content-type': 'application/yaml' },
  })
  expectStatus(made, 201)
  const published = await world.a.admin.post(`${base}/definitions/${name}/versions`, {})
  expectStatus(published, 201)
  return published
}

function execute(name: string, input: unknown = {}): Promise<Reply> {
  return world.a.admin.post(`${base}/definitions/${name}/executions`, { input }, { prefer: 'wait=25' })
}

/** Publishes the tasks, runs them once to the end and returns the result. */
async function outcome(name: string, tasks: string, input: unknown = {}): Promise<unknown> {
  await publish(name, tasks)
  const done = await execute(name, input)
  expectStatus(done, 201)
  expect(get(done, 'status'), done.text).toBe('completed')
  return get(done, 'output')
}

describe('definitions', () => {
  const good = flow('hello', '  - greet:\n      set: {said: \'${ "hi " + .name }\'}')

  test('validate: valid flow: no diagnostics', async () => {
    const reply = await world.a.admin.post(`${base}/validate`, { source: good })
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ valid: true, diagnostics: [] })
  })

  test('validate: invalid flow: every diagnostic with code, line, column, pointer and hint', async () => {
    const reply = await world.a.admin.post(`${base}/validate`, {
      source: flow('bad', '  - one:\n      sett: {a: 1}\n  - two:\n      wait: {secondz: 1}'),
    })
    expectStatus(reply, 200)
    expect(get(reply, 'valid')).toBe(false)
    const diagnostics = list(reply, 'diagnostics')
    expect(diagnostics.map((fault) => get(fault, 'line'))).toEqual(expect.arrayContaining([4, 6]))
    for (const fault of diagnostics) {
      expect(fault).toMatchObject({
        code: expect.any(String),
        message: expect.any(String),
        line: expect.any(Number),
        column: expect.any(Number),
        pointer: expect.stringContaining('/do/'),
      })
    }
    expect(reply.text).toMatch(/\bset\b/)
    expect(reply.text).toContain('seconds')
  })

  test('validate: malformed YAML: diagnostics, no server error', async () => {
    const reply = await world.a.admin.post(`${base}/validate`, { source: 'do:\n  - a: [1,\n b: }' })
    expectStatus(reply, 200)
    expect(get(reply, 'valid')).toBe(false)
    expect(get(reply, 'diagnostics/0/line')).toEqual(expect.any(Number))
  })

  test('flow: created from YAML: 201, a draft', async () => {
    const headers = { 'content-type': 'application/yaml' }
    const reply = await world.a.admin.send('POST', `${base}/definitions`, { raw: good, headers })
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({
      id: expect.stringMatching(/^flow_/),
      name: 'hello',
      state: 'draft',
    })
  })

  test('flow: invalid: 422, not created', async () => {
    const source = flow('faulty', '  - one:\n      sett: {a: 1}')
    expectProblem(await world.a.admin.post(`${base}/definitions`, { source }), 422)
    expectProblem(await world.a.admin.get(`${base}/definitions/faulty`), 404)
  })

  test('publish: draft: immutable version with a hash', async () => {
    const reply = await world.a.admin.post(`${base}/definitions/hello/versions`, {})
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({ version: 1, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) })
  })

  test('execution: Prefer: wait: reply when it has ended', async () => {
    const reply = await execute('hello', { name: world.a.mark })
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({
      id: expect.stringMatching(/^run_/),
      flow_id: expect.stringMatching(/^flow_/),
      version: 1,
      status: 'completed',
      input: { name: world.a.mark },
      output: { said: `hi ${world.a.mark}` },
    })
  })

  test('execution: workflow id: tenant:workspace:flow:run', async () => {
    const reply = await execute('hello', { name: 'x' })
    const [tenant, workspace, id, run, ...rest] = str(reply, 'workflow_id').split(':')
    expect([tenant, workspace, id, rest]).toEqual([
      world.a.tenant,
      world.a.workspace,
      str(reply, 'flow_id'),
      [],
    ])
    expect(run).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('preview: reply of a flow route: marked in x-stability', async () => {
    const reply = await world.a.admin.get(`${base}/definitions`)
    expect(reply.headers.get('x-stability')).toBe('preview')
  })

  test('executions: listed and read: same data', async () => {
    const reply = await execute('hello', { name: 'again' })
    const read = await world.a.admin.get(`${base}/executions/${str(reply, 'id')}`)
    expectStatus(read, 200)
    expect(read.body).toMatchObject({ status: 'completed', output: { said: 'hi again' } })
    const listed = list(await world.a.admin.get(`${base}/executions`)).map((row) => get(row, 'id'))
    expect(listed).toContain(str(reply, 'id'))
  })
})

describe('tasks', () => {
  test('for: list: its tasks run once per item', async () => {
    const tasks = `
  - start:
      set: {numbers: '\${ .numbers }', total: 0}
  - each:
      for: {each: n, in: '\${ .numbers }'}
      do:
        - add:
            set: {numbers: '\${ .numbers }', total: '\${ .total + $n }'}
  - last:
      set: {total: '\${ .total }'}`
    expect(await outcome('loop', tasks, { numbers: [1, 2, 3] })).toEqual({ total: 6 })
  })

  test('try: error raised: caught', async () => {
    const tasks = `
  - guarded:
      try:
        - fail:
            raise:
              error: {type: 'https://example.com/errors/stock', status: 409, title: No stock}
      catch:
        errors:
          with: {status: 409}
        as: problem
        do:
          - rescue:
              set: {caught: '\${ $problem.status }'}`
    expect(await outcome('rescue', tasks)).toEqual({ caught: 409 })
  })

  test('error: not caught: execution faults and says where', async () => {
    const tasks = `
  - boom:
      raise:
        error: {type: 'https://example.com/errors/boom', status: 500, title: Boom}`
    await publish('boom', tasks)
    const reply = await execute('boom')
    expect(reply.body).toMatchObject({ status: 'faulted' })
    expect(JSON.stringify(get(reply, 'error'))).toContain('/do/0/boom')
  })

  test('fork: several branches: all run, their results are collected', async () => {
    const tasks = `
  - both:
      fork:
        branches:
          - left:
              set: {side: left}
          - right:
              set: {side: right}`
    expect(await outcome('both', tasks)).toEqual([{ side: 'left' }, { side: 'right' }])
  })

  test.each([
    [50, 'large'],
    [5, 'small'],
  ])('switch: on %i: continues at %s', async (n, size) => {
    const tasks = `
  - choose:
      switch:
        - big:
            when: '\${ .n > 10 }'
            then: large
        - other:
            then: small
  - large:
      set: {size: large}
      then: end
  - small:
      set: {size: small}`
    expect(await outcome(`choose-${size}`, tasks, { n })).toEqual({ size })
  })

  test('wait: duration: waits', async () => {
    await publish('patient', '  - pause:\n      wait: {seconds: 2}')
    const reply = await execute('patient')
    expect(get(reply, 'status'), reply.text).toBe('completed')
    const took = Date.parse(str(reply, 'ended_at')) - Date.parse(str(reply, 'started_at'))
    expect(took).toBeGreaterThanOrEqual(2000)
    expect(took).toBeLessThan(10_000 * slowdown())
  })

  test('emit: subscribers: of the tenant only', async () => {
    const path = '/v1/events/subscribe?topic=test.finished'
    const [a, b] = [await Stream.open(path, world.a.anon), await Stream.open(path, world.b.anon)]
    try {
      await Promise.all([a, b].map((stream) => stream.next(({ event }) => event === 'ready')))
      const tasks = `
  - tell:
      emit:
        event:
          with: {source: 'https://example.com/test', type: test.finished, data: {mark: ${world.a.mark}}}`
      await outcome('tell', tasks)
      const received = await a.next(({ event }) => event === 'message')
      expect(get(received.data, 'data/mark')).toBe(world.a.mark)
      expect(b.messages()).toEqual([])
    } finally {
      a.close()
      b.close()
    }
  })
})

describe('platform calls', () => {
  // Assumption: the names of arguments; the specification names the functions only.
  test('collection.create: called: writes a document', async () => {
    const tasks = `
  - write:
      call: collection.create
      with: {name: fromflow, document: {text: '\${ .text }'}}`
    await outcome('write', tasks, { text: world.a.mark })
    const rows = list(await world.a.service.get('/v1/collections/fromflow/documents'))
    expect(rows).toEqual([expect.objectContaining({ text: world.a.mark })])
  })

  test('event.publish: called: publishes', async () => {
    const stream = await Stream.open('/v1/events/subscribe?topic=fromflow', world.a.service)
    try {
      await stream.next(({ event }) => event === 'ready')
      const tasks = `
  - say:
      call: event.publish
      with: {topic: fromflow, data: {n: 7}}`
      await outcome('say', tasks)
      const received = await stream.next(({ event }) => event === 'message')
      expect(get(received.data, 'data')).toEqual({ n: 7 })
    } finally {
      stream.close()
    }
  })

  test("function.invoke: called: returns the function's result", async () => {
    const { a } = world
    const source = 'export default async (input: { n: number }) => ({ twice: input.n * 2 })'
    const made = await a.admin.post('/v1/functions', { workspace_id: a.workspace, name: 'twice', source })
    expectStatus(made, 201)
    const tasks = `
  - ask:
      call: function.invoke
      with: {id: twice, input: {n: '\${ .n }'}}`
    expect(await outcome('ask', tasks, { n: 21 })).toEqual({ twice: 42 })
  })

  test('object.put: called: writes an object', async () => {
    const tasks = `
  - store:
      call: object.put
      with: {bucket: ${world.a.bucket}, key: flow/out.txt, content: '\${ .text }', content_type: text/plain}`
    await outcome('store', tasks, { text: world.a.mark })
    const reply = await world.a.service.get(`/v1/objects/${world.a.bucket}/flow/out.txt`)
    expectStatus(reply, 200)
    expect(reply.text).toBe(world.a.mark)
  })

  test('object.put: bucket of another tenant: refused', async () => {
    const tasks = `
  - steal:
      call: object.put
      with: {bucket: ${world.b.bucket}, key: x, content: y, content_type: text/plain}`
    await publish('steal', tasks)
    const reply = await execute('steal')
    expect(reply.body).toMatchObject({ status: 'faulted' })
    expect(JSON.stringify(get(reply, 'error'))).toMatch(/403|AccessDenied/)
    await expectUnaffected(world)
  })
})

describe('tenant isolation of flows', () => {
  test('flow: of A in a workspace of B: 404 identical to that of a missing one', async () => {
    const foreignId = str(await world.a.admin.get(`${base}/definitions/hello`), 'id')
    const missingId = `${foreignId.slice(0, -4)}zzzz`
    const inB = `/v1/flows/workspaces/${world.b.workspace}/definitions`
    const seen = await world.b.admin.get(`${inB}/${foreignId}`)
    const missing = await world.b.admin.get(`${inB}/${missingId}`)
    expectProblem(seen, 404)
    expect(anonymous(seen, foreignId)).toBe(anonymous(missing, missingId))
    expectProblem(await world.b.admin.post(`${inB}/${foreignId}/executions`, { input: {} }), 404)
  })

  test('execution: of A in a workspace of B: 404', async () => {
    const run = str(await execute('hello', { name: 'x' }), 'id')
    const inB = `/v1/flows/workspaces/${world.b.workspace}/executions/${run}`
    expectProblem(await world.b.admin.get(inB), 404)
  })

  test('execution list: in B: none of A', async () => {
    const inB = `/v1/flows/workspaces/${world.b.workspace}`
    expect(list(await world.b.admin.get(`${inB}/executions`))).toEqual([])
    expect(list(await world.b.admin.get(`${inB}/definitions`))).toEqual([])
  })

  test('text from data: contains an expression: never evaluated', async () => {
    const output = await outcome('inert', "  - copy:\n      set: {copy: '${ .text }'}", {
      text: '${ 1 + 1 }',
    })
    expect(output).toEqual({ copy: '${ 1 + 1 }' })
  })

  test('expression: never ends: refused or stopped, the platform keeps working', async () => {
    const source = flow('endless', "  - loop:\n      set: {all: '${ def f: 1 + f; f }'}")
    const made = await world.a.admin.post(`${base}/definitions`, { source })
    if (made.status === 201) {
      expectStatus(await world.a.admin.post(`${base}/definitions/endless/versions`, {}), 201)
      expect((await execute('endless')).body).toMatchObject({ status: 'faulted' })
    } else {
      expectProblem(made, 422)
    }
    await expectUnaffected(world)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
