/** Handles of secrets: worthless outside their own execution, and resolved to the current value. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tablesContaining, temporalTexts } from '../../support/clients/leak-scan.ts'
import {
  allowLoopback,
  canary,
  postTask,
  publishFlow,
  remove,
  runFlow,
  signal,
  storeSecret,
  until,
} from '../../support/fixtures/secrets.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

let workspace: TestWorkspace
let fakeServer: FakeServers
/** Responses of the server, and the key that it accepts. */
let luredResponse = ''
let acceptedKey = ''
beforeAll(async () => {
  workspace = await createTestWorkspace()
  fakeServer = await FakeServers.open({
    '/lured': () => ({ json: luredResponse }),
    '/rotating': ({ headers }) =>
      headers['x-key'] === acceptedKey ? { json: { taken: true } } : { status: 403 },
  })
  await allowLoopback(workspace, fakeServer)
})
afterAll(() => fakeServer.close())

const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'
const SENT = (name: string, path: string) =>
  postTask(name, fakeServer.origin + path, "body: '${ . }', output: content")

/** The handle of a secret, read from the execution's raw history. */
async function handleIn(
  where: TestWorkspace,
  execution: { workflow_id: string },
  name: string,
): Promise<string> {
  const traces = await temporalTexts(where, execution.workflow_id)
  const [found] = new RegExp(`tenonsecret~${name}~[\\w-]{32}`).exec(traces) ?? []
  if (found === undefined) throw new Error('no handle in the history')
  return found
}

describe('handle', () => {
  const value = canary()
  beforeAll(() => storeSecret(workspace, 'lure', value))

  test('set, concatenated, used as a key or raised: shown as ***, stored in no table', async () => {
    const tasks =
      "  - a: { set: { whole: '${ $secrets.lure }', part: '${ \"x\" + $secrets.lure + \"y\" }', '${ $secrets.lure }': 1 } }"
    const body = await runFlow(workspace, await publishFlow(workspace, ['lure'], tasks))
    expect(body).toMatchObject({ status: 'completed', output: { whole: '***', part: 'x***y' } })
    expect(JSON.stringify(body)).not.toContain('tenonsecret')
    const raised =
      "  - a: { raise: { error: { type: https://example.com/x, status: 400, detail: '${ $secrets.lure }' } } }"
    const faulted = await runFlow(workspace, await publishFlow(workspace, ['lure'], raised))
    expect(faulted.error.detail).toBe('***')
    expect(await tablesContaining(['tenonsecret'])).toEqual([])
  })

  test('replayed in another execution, flow or workspace: sent as ***', async () => {
    const flow = await publishFlow(
      workspace,
      ['lure'],
      `  - own: { set: '\${ . + { own: $secrets.lure } }' }\n${SENT('tell', '/echo/replay')}`,
    )
    const first = await runFlow(workspace, flow)
    expect(first, JSON.stringify(first)).toMatchObject({ status: 'completed' })
    expect(JSON.parse(fakeServer.requestsTo('/echo/replay')[0]?.body ?? '')).toEqual({ own: value })
    const stolen = await handleIn(workspace, first, 'lure')

    const sibling = await addTestWorkspace(workspace)
    await allowLoopback(sibling, fakeServer)
    await storeSecret(sibling, 'lure', canary())
    const others = [
      flow,
      await publishFlow(
        workspace,
        ['lure'],
        `  - own: { set: '\${ . + { own: $secrets.lure } }' }\n${SENT('tell', '/echo/replay')}`,
      ),
      await publishFlow(workspace, [], SENT('tell', '/echo/replay')),
      await publishFlow(sibling, ['lure'], SENT('tell', '/echo/replay')),
    ]
    for (const other of others) {
      const body = await runFlow(workspace, other, { stolen, [stolen]: [`Bearer ${stolen}`] })
      expect(body, JSON.stringify(body)).toMatchObject({ status: 'completed' })
      const sent = fakeServer.requestsTo('/echo/replay').at(-1)?.body ?? ''
      expect(JSON.parse(sent)).toMatchObject({ stolen: '***', '***': ['Bearer ***'] })
      expect(JSON.stringify(body)).not.toContain('tenonsecret')
    }
  })

  test('received from outside by its own execution, in an event, response or document: sent as ***', async () => {
    const tasks = [
      "  - own: { set: { own: '${ $secrets.lure }' } }",
      LISTEN,
      "  - keep: { set: { said: '${ . }' }, export: { as: '${ { said: .said } }' } }",
      `  - ask: { call: http, with: { method: get, endpoint: '${fakeServer.origin}/lured' } }`,
      "  - got: { call: collection.list, with: { name: lures }, input: { from: '${ { asked: . } }' }, output: { as: '${ { listed: .data[0].text, asked: $input.asked, said: $context.said } }' } }",
      SENT('tell', '/echo/lured'),
    ].join('\n')
    const begun = await runFlow(workspace, await publishFlow(workspace, ['lure'], tasks), {}, 0)
    await until(workspace, begun.id, 'waiting')
    const stolen = await handleIn(workspace, begun, 'lure')
    luredResponse = stolen
    const document = { text: `x ${stolen}` }
    await call('POST', '/v1/collections/lures/documents', { as: workspace.service, body: document })
    await signal(workspace, begun.id, { type: 'go', data: { text: stolen } })
    const body = await until(workspace, begun.id, 'completed')
    expect(body.status).toBe('completed')
    const sent = fakeServer.requestsTo('/echo/lured').at(-1)?.body ?? ''
    expect(JSON.parse(sent)).toEqual({ listed: 'x ***', asked: '***', said: [{ text: '***' }] })
  })

  test('response that echoed it: not reused in a rerun', async () => {
    const echoTask = postTask('ask', `${fakeServer.origin}/echo/kept`, "body: { key: '${ $secrets.lure }' }")
    const flow = await publishFlow(workspace, ['lure'], `${echoTask}\n  - last: { set: { x: 1 } }`)
    const { id } = await runFlow(workspace, flow)
    const again = { as: workspace.operator, body: { from: 'last' } }
    const { status, body } = await call('POST', `${workspace.flows}/executions/${id}/rerun`, again)
    expect([status, body.detail]).toEqual([
      409,
      expect.stringMatching(/`ask` was too large .* contained a secret/),
    ])
  })

  test('passed to a subflow that declares the secret itself: refused', async () => {
    const child = (await publishFlow(workspace, ['lure'], SENT('tell', '/echo/child'))).split('/').at(-1)
    const run = (input: string) =>
      `  - sub: { run: { workflow: { namespace: test, name: ${child}, version: '1.0.0', input: ${input} } } }`
    const body = await runFlow(
      workspace,
      await publishFlow(workspace, ['lure'], run("{ token: '${ $secrets.lure }' }")),
    )
    expect(body).toMatchObject({
      status: 'faulted',
      error: { detail: expect.stringMatching(/to another flow/) },
    })
    expect(body.error.type).toMatch(/configuration$/)
    expect(fakeServer.requestsTo('/echo/child')).toEqual([])
  })
})

describe('secret changed while an execution runs', () => {
  test('replaced: the next attempt sends the new value', async () => {
    const [before, after] = [canary(), canary()]
    await storeSecret(workspace, 'rotated', before)
    const attempt = `try: [{ ask: { call: http, with: { method: get, endpoint: '${fakeServer.origin}/rotating', headers: { x-key: '\${ $secrets.rotated }' } } } }]`
    const flow = await publishFlow(
      workspace,
      ['rotated'],
      `  - again: { ${attempt}, catch: { retry: { delay: PT0.2S, limit: { attempt: { count: 200 } } } } }`,
    )
    acceptedKey = after
    const body = await runFlow(workspace, flow, {}, 0)
    await eventually(async () =>
      fakeServer.requestsTo('/rotating').find(({ headers }) => headers['x-key'] === before),
    )
    await storeSecret(workspace, 'rotated', after)
    expect((await until(workspace, body.id, 'completed')).output).toEqual({ taken: true })
  })

  test('deleted or of another form: the call faults with a configuration error; stored again in the old form, it works', async () => {
    await storeSecret(workspace, 'passing', { key: canary() })
    const flow = await publishFlow(
      workspace,
      ['passing'],
      `${LISTEN}\n${postTask('ask', `${fakeServer.origin}/echo/passing`, "body: { key: '${ $secrets.passing.key }' }")}`,
    )
    const first = await runFlow(workspace, flow, {}, 0)
    expect((await remove(workspace, 'passing')).body.used_by).toEqual([flow.split('/').at(-1)])
    await signal(workspace, first.id, { type: 'go' })
    const faulted = await until(workspace, first.id, 'faulted')
    expect(faulted.error).toMatchObject({
      instance: '/do/1/ask',
      detail: expect.stringMatching(/`passing` no longer exists/),
    })
    expect(faulted.error.type).toMatch(/configuration$/)
    const second = await runFlow(workspace, flow, {}, 0)
    await storeSecret(workspace, 'passing', { key: 'another value' })
    await signal(workspace, second.id, { type: 'go' })
    expect((await until(workspace, second.id, 'faulted')).error.type).toMatch(/expression$/)
    const third = await runFlow(workspace, flow, {}, 0)
    await storeSecret(workspace, 'passing', { other: 'another value' })
    await signal(workspace, third.id, { type: 'go' })
    expect((await until(workspace, third.id, 'faulted')).error.type).toMatch(/configuration$/)
    expect(fakeServer.requestsTo('/echo/passing')).toEqual([])
  })
})
