// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Input of an execution is validated against the flow's schema before the execution is created. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createEntry, Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

const ORDER = `input:
  schema:
    document:
      type: object
      required: [customer, items]
      properties:
        customer: { type: string, minLength: 1 }
        items: { type: array, items: { type: object, required: [sku], properties: { count: { type: integer, default: 1 } } } }
`
const GOOD = { customer: 'Ada', items: [{ sku: 'a/b', count: 2 }] }
const BAD = { customer: '', items: [{ sku: 'x' }, { count: 'two' }] }

let workspace: TestWorkspace
let executions: Executions
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
})

const start = (flow: string, body: object, headers: Record<string, string> = {}) =>
  call('POST', `${workspace.flows}/definitions/${flow}/executions`, { as: workspace.operator, body, headers })

async function executionsOf(flow: string): Promise<unknown[]> {
  const { body } = await call('GET', `${workspace.flows}/definitions/${flow}/executions`, {
    as: workspace.operator,
  })
  return body.data
}

describe('start of an execution', () => {
  test('invalid input: refused with 422 and every failing pointer, no execution is created', async () => {
    const ledger = unique('c')
    const flow = await executions.publish(`  - a: { ${createEntry("'${ .customer }'", ledger)} }`, {
      more: ORDER,
    })
    const { status, body } = await start(flow, { input: BAD })
    expect(status).toBe(422)
    expect(body).toMatchObject({
      code: 'input_invalid',
      title: expect.stringContaining('schema of the flow'),
    })
    const pointers = body.errors.map(({ pointer }: { pointer: string }) => pointer)
    expect(pointers.toSorted()).toEqual(['/input/customer', '/input/items/1', '/input/items/1/count'])
    expect(body.errors.every(({ name, in: place }: never) => name === 'input' && place === 'body')).toBe(true)
    expect(await start(flow, {})).toMatchObject({ status: 422, body: { code: 'input_invalid' } })
    expect(await executionsOf(flow)).toEqual([])
    const run = await executions.ended(await executions.start(flow, { input: GOOD }))
    expect(run).toMatchObject({ status: 'completed', input: GOOD })
    expect(await executions.ledger(ledger)).toEqual(['Ada'])
  })

  test.each([
    ['\\u0000', { a: ['x', { 'b/c': 'a\u0000' }] }, '/input/a/1/b~1c'],
    ['half a surrogate pair', { a: 'b\ud83d' }, '/input/a'],
    ['NUL in a name', { a: { 'b\u0000': 1 } }, '/input/a'],
  ])('input with %s: 400 with its pointer', async (_what, input, pointer) => {
    const flow = await executions.publish('  - a: { set: { n: 1 } }')
    expect(await start(flow, { input })).toMatchObject({
      status: 400,
      body: { code: 'value_invalid', errors: [{ name: 'input', pointer }] },
    })
    expect(await start(flow, { input: { a: '\\u0000' } })).toMatchObject({ status: 201 })
  })

  test('version by number, alias or default: validates against the schema of that version', async () => {
    const name = await executions.publish('  - a: { set: { n: 1 } }', { more: ORDER })
    await executions.publish('  - a: { set: { n: 2 } }', { name })
    const path = `${workspace.flows}/definitions/${name}/aliases/strict`
    expect((await call('PUT', path, { as: workspace.operator, body: { version: 1 } })).status).toBe(200)
    expect((await start(name, { input: BAD, version: 1 })).status).toBe(422)
    expect((await start(name, { input: BAD, alias: 'strict' })).status).toBe(422)
    expect((await start(name, { input: BAD })).status).toBe(201)
    expect((await start(name, { input: GOOD, alias: 'strict' })).status).toBe(201)
  })

  test('invalid input on a limited flow: takes no slot; valid input takes one', async () => {
    const more = `${ORDER}concurrency: { limit: 1, key: '\${ .customer }', onLimit: refuse }\n`
    const flow = await executions.publish('  - nap: { wait: P1D }', { more })
    for (const input of [BAD, { customer: 'Ada' }]) expect((await start(flow, { input })).status).toBe(422)
    const id = await executions.start(flow, { input: GOOD })
    expect(await start(flow, { input: GOOD })).toMatchObject({ status: 429 })
    await executions.send(id, 'cancel')
    await executions.ended(id)
  })

  test('idempotency key: repeats the refusal for invalid input, creates one execution for valid input', async () => {
    const flow = await executions.publish('  - a: { set: { n: 1 } }', { more: ORDER })
    const key = { 'idempotency-key': unique('k') }
    for (const _time of [1, 2]) expect((await start(flow, { input: BAD }, key)).status).toBe(422)
    const sameKey = { 'idempotency-key': unique('k') }
    const [first, second] = [
      await start(flow, { input: GOOD }, sameKey),
      await start(flow, { input: GOOD }, sameKey),
    ]
    expect(second.body.id).toBe(first.body.id)
    expect(await executionsOf(flow)).toHaveLength(1)
  })

  test('rerun with invalid input: refused with 422; valid input starts an execution', async () => {
    const flow = await executions.publish('  - a: { set: { n: 1 } }', { more: ORDER })
    const { id } = await executions.ended(await executions.start(flow, { input: GOOD }))
    const refused = await executions.send(id, 'rerun', { input: BAD })
    expect(refused).toMatchObject({ status: 422, body: { code: 'input_invalid' } })
    expect((await executions.send(id, 'rerun', { input: { ...GOOD, customer: 'Bob' } })).status).toBe(201)
  })
})

test('subflow with invalid input: its execution is created and faults, the parent faults with 400', async () => {
  const child = await executions.publish('  - a: { set: { n: 1 } }', { more: ORDER })
  const call = `{ namespace: n, name: ${child}, version: latest, input: { customer: Ada } }`
  const parent = await executions.publish(`  - sub: { run: { workflow: ${call} } }`)
  const run = await executions.ended(await executions.start(parent))
  expect(run).toMatchObject({ status: 'faulted', error: { status: 400 } })
  expect(await executionsOf(child)).toMatchObject([{ status: 'faulted', trigger: { kind: 'flow' } }])
})

test('input too long to validate at start: accepted, the execution faults with the failing index', async () => {
  const more = 'input: { schema: { document: { items: { type: integer, minimum: 1, multipleOf: 1 } } } }\n'
  const flow = await executions.publish('  - a: { set: { n: 1 } }', { more })
  const many = [...Array(30_000).fill(1), 'no number']
  expect((await start(flow, { input: ['no number'] })).status).toBe(422)
  const run = await executions.ended(await executions.start(flow, { input: many }))
  expect(run).toMatchObject({ status: 'faulted', error: { detail: expect.stringContaining('/30000') } })
})
