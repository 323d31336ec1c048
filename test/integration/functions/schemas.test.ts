/** Exported schemas of a function's input and output on every way to it, and the checks of its configuration. */

import { beforeAll, describe, expect, test } from 'vitest'
import { ok } from '../../support/clients/mcp.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { ASYNC, FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { onTopics } from '../../support/fixtures/function-triggers.ts'
import { resultOf } from '../../support/fixtures/functions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const deploy = (name: string, source: string, config?: object) =>
  call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name, source, ...(config && { config }) },
  })

const SOURCE = `export const input = {
  type: 'object',
  properties: { order: { type: 'object', properties: { 'sku/no': { type: 'string' } }, required: ['sku/no'] }, n: { type: 'integer' } },
  additionalProperties: false,
}
export const output = { type: 'object', properties: { price: { type: 'number' } }, required: ['price'] }
export default ({ n = 1 }) => n === 13 ? { price: 'unlucky' } : { price: 4 * n }`

describe('schemas', () => {
  beforeAll(async () => {
    const { input_schema, output_schema } = await ok(deploy('priced', SOURCE, { anon: true }))
    expect([input_schema.additionalProperties, output_schema.required]).toEqual([false, ['price']])
  })
  const invoke = (body: unknown, as = workspace.service) =>
    call('POST', '/v1/functions/priced/invoke', { as, body })

  test.each(['service', 'anon'] as const)(
    'key %s: an input that does not fit is refused with pointers, and leaves no run',
    async (key) => {
      const count = 'select count(*)::int as n from tenon.function_runs where workspace_id = $1'
      const before = await asSuperuser(count, [workspace.workspaceId])
      const { status, body } = await invoke({ order: {}, n: 1.5, more: 1 }, workspace[key])
      expect([status, body.code]).toEqual([400, 'validation_failed'])
      expect(body.errors.map(({ pointer }: { pointer: string }) => pointer).sort()).toEqual([
        '/more',
        '/n',
        '/order/sku~1no',
      ])
      expect(await asSuperuser(count, [workspace.workspaceId])).toEqual(before)
      expect((await invoke({ n: 2 }, workspace[key])).body).toEqual({ price: 8 })
    },
  )

  test('result that does not fit: fails with a code of its own, and is recorded', async () => {
    const { status, body } = await invoke({ n: 13 })
    expect([status, body.code]).toEqual([502, 'function_output_invalid'])
    expect(body.detail).toMatch(/\/price must be/)
    const [run] = await asSuperuser<{ status: string; error: { code: string } }>(
      'select status, error from tenon.function_runs where id = $1',
      [body.run_id],
    )
    expect(run).toMatchObject({ status: 'failed', error: { code: 'function_output_invalid' } })
  })

  test('input with more values than one thread checks: checked by the worker', async () => {
    const source = `export const input = { type: 'object', properties: { list: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 } } } }
export default ({ list }) => list.length`
    await ok(deploy('listed', source))
    const listed = (list: readonly number[]) =>
      call('POST', '/v1/functions/listed/invoke', { as: workspace.service, body: { list } })
    const many = new Array(40_000).fill(1)
    expect((await listed(many)).body).toBe(40_000)
    const { status, body } = await listed([...many, 10])
    expect([status, body.code, body.detail]).toEqual([
      400,
      'validation_failed',
      expect.stringContaining('/list/40000'),
    ])
  })
})

describe('ways to a function whose input does not fit', () => {
  const WRONG = { n: 1.5 }
  const REFUSED = { code: 'validation_failed', detail: expect.stringContaining('/n must be an integer') }
  let runs: FunctionRuns
  let strict: string
  const topic = unique('priced')
  beforeAll(async () => {
    runs = new FunctionRuns(workspace)
    strict = await runs.deploy('strict', SOURCE, onTopics(topic))
  })

  test('asynchronous call, flow, and another function: each gets the error, and no run is left', async () => {
    const refused = await runs.invoke(strict, WRONG, { headers: ASYNC })
    expect([refused.status, refused.body]).toEqual([400, expect.objectContaining(REFUSED)])
    const calls = `export default (_input, { tenon }) => tenon.functions.invoke('strict', ${JSON.stringify(WRONG)})
      .catch(({ code, detail }) => ({ code, detail }))`
    expect(await resultOf(workspace.service, await runs.deploy('calls', calls))).toEqual(REFUSED)
    const flows = new Executions(workspace)
    const flow = await flows.publish(`  - attempt:
      try:
        - call: { call: function.invoke, with: { id: strict, input: '\${ . }' } }
      catch:
        as: caught
        do:
          - show: { set: { caught: '\${ $caught }' } }`)
    const { output } = await flows.ended(await flows.start(flow, { input: WRONG }))
    expect(output.caught).toMatchObject({ status: 400, detail: REFUSED.detail })
    expect(await runs.ids(strict)).toEqual([])
  })

  test('event: its run fails, and is a dead letter', async () => {
    await emitAt(workspace, topic, WRONG)
    const [run = ''] = await eventually(async () => {
      const ids = await runs.ids(strict, 'dead_letter=true')
      return ids.length > 0 ? ids : undefined
    })
    expect((await runs.read(strict, run)).error.code).toBe('validation_failed')
  })

  test('asynchronous run whose result does not fit: fails, and is a dead letter without the result', async () => {
    const run = await runs.start(strict, { n: 13 })
    expect(await runs.ended(strict, run)).toMatchObject({
      status: 'failed',
      dead_letter: true,
      result: null,
      error: { code: 'function_output_invalid', detail: expect.stringMatching(/\/price must be/) },
    })
  })
})

describe('configuration', () => {
  const PLAIN = 'export default () => 1'

  test('errors that its schema cannot express: all at once', async () => {
    const config = {
      schedule: { cron: '61 * * * *', timezone: 'Europe/Berlim' },
      egress: ['api.example.com:443', 'https://x.example', '*.com:443', 'a.example:70000'],
      scopes: ['collection:read', 'collections:writ'],
      retries: 2,
    }
    const { status, body } = await deploy('configured', PLAIN, config)
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual(
      expect.arrayContaining([
        '/config/schedule/cron',
        '/config/schedule/timezone',
        '/config/egress/1',
        '/config/egress/2',
        '/config/egress/3',
        '/config/scopes/1',
        '/config/retries',
      ]),
    )
    expect(body.detail).not.toContain('egress.0')
    for (const env of [{ 'a-b': 'x' }, { '': 'x' }])
      expect((await deploy('configured', PLAIN, { env })).status).toBe(400)
  })

  test('changed: retries need a function that is idempotent, also as stored; null clears; a missing secret is a warning', async () => {
    const made = await ok(
      deploy('changed', PLAIN, { secrets: ['absent'], concurrency: 2, schedule: { cron: '0 9 * * *' } }),
    )
    expect(made.warnings).toEqual([
      { pointer: '/config/secrets/0', detail: expect.stringContaining('`absent`') },
    ])
    const configure = (body: object) =>
      call('PUT', `/v1/functions/${made.id}/config`, { as: workspace.operator, body })
    expect((await configure({ retries: 1 })).body.code).toBe('validation_failed')
    await ok(configure({ idempotent: true }))
    await ok(configure({ retries: 1 }))
    expect((await configure({ idempotent: false })).body.code).toBe('validation_failed')
    const { config } = await ok(configure({ concurrency: null, schedule: null, retries: 0 }))
    expect(config).toMatchObject({ concurrency: null, schedule: null, retries: 0, idempotent: true })
  })
})
