/** Handles of secrets: worthless outside their own execution, and resolved to the current value. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tablesWith, temporalTraces } from '../../support/clients/leak-scan.ts'
import {
  canary,
  posting,
  published,
  ran,
  reachable,
  remove,
  signal,
  stored,
  until,
} from '../../support/fixtures/secrets.ts'
import { aRoom, aWorkspace, call, eventually, type Room } from '../../support/fixtures/tenants.ts'
import { Outside } from '../../support/servers/fake-servers.ts'

let room: Room
let fakeServer: Outside
/** What the server returns, and which key it accepts. */
let luredResponse = ''
let acceptedKey = ''
beforeAll(async () => {
  room = await aRoom()
  fakeServer = await Outside.open({
    '/lured': () => ({ json: luredResponse }),
    '/rotating': ({ headers }) =>
      headers['x-key'] === acceptedKey ? { json: { taken: true } } : { status: 403 },
  })
  await reachable(room, fakeServer)
})
afterAll(() => fakeServer.close())

const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'
const SENT = (name: string, path: string) =>
  posting(name, fakeServer.origin + path, "body: '${ . }', output: content")

/** The handle of a secret, read from the execution's raw history. */
async function handleIn(where: Room, execution: { workflow_id: string }, name: string): Promise<string> {
  const traces = await temporalTraces(where, execution.workflow_id)
  const [found] = new RegExp(`tenonsecret~${name}~[\\w-]{32}`).exec(traces) ?? []
  if (found === undefined) throw new Error('no handle in the history')
  return found
}

describe('handle', () => {
  const value = canary()
  beforeAll(() => stored(room, 'lure', value))

  test('set, concatenated, used as a key or raised: shown as ***, stored in no table', async () => {
    const tasks =
      "  - a: { set: { whole: '${ $secrets.lure }', part: '${ \"x\" + $secrets.lure + \"y\" }', '${ $secrets.lure }': 1 } }"
    const body = await ran(room, await published(room, ['lure'], tasks))
    expect(body).toMatchObject({ status: 'completed', output: { whole: '***', part: 'x***y' } })
    expect(JSON.stringify(body)).not.toContain('tenonsecret')
    const raised =
      "  - a: { raise: { error: { type: https://example.com/x, status: 400, detail: '${ $secrets.lure }' } } }"
    const faulted = await ran(room, await published(room, ['lure'], raised))
    expect(faulted.error.detail).toBe('***')
    expect(await tablesWith(['tenonsecret'])).toEqual([])
  })

  test('replayed in another execution, flow or workspace: sent as ***', async () => {
    const flow = await published(
      room,
      ['lure'],
      `  - own: { set: '\${ . + { own: $secrets.lure } }' }\n${SENT('tell', '/echo/replay')}`,
    )
    const first = await ran(room, flow)
    expect(first, JSON.stringify(first)).toMatchObject({ status: 'completed' })
    expect(JSON.parse(fakeServer.askedFor('/echo/replay')[0]?.body ?? '')).toEqual({ own: value })
    const stolen = await handleIn(room, first, 'lure')

    const sibling = await aWorkspace(room)
    await reachable(sibling, fakeServer)
    await stored(sibling, 'lure', canary())
    const others = [
      flow,
      await published(
        room,
        ['lure'],
        `  - own: { set: '\${ . + { own: $secrets.lure } }' }\n${SENT('tell', '/echo/replay')}`,
      ),
      await published(room, [], SENT('tell', '/echo/replay')),
      await published(sibling, ['lure'], SENT('tell', '/echo/replay')),
    ]
    for (const other of others) {
      const body = await ran(room, other, { stolen, [stolen]: [`Bearer ${stolen}`] })
      expect(body, JSON.stringify(body)).toMatchObject({ status: 'completed' })
      const sent = fakeServer.askedFor('/echo/replay').at(-1)?.body ?? ''
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
    const begun = await ran(room, await published(room, ['lure'], tasks), {}, 0)
    await until(room, begun.id, 'waiting')
    const stolen = await handleIn(room, begun, 'lure')
    luredResponse = stolen
    const document = { text: `x ${stolen}` }
    await call('POST', '/v1/collections/lures/documents', { as: room.service, body: document })
    await signal(room, begun.id, { type: 'go', data: { text: stolen } })
    const body = await until(room, begun.id, 'completed')
    expect(body.status).toBe('completed')
    const sent = fakeServer.askedFor('/echo/lured').at(-1)?.body ?? ''
    expect(JSON.parse(sent)).toEqual({ listed: 'x ***', asked: '***', said: [{ text: '***' }] })
  })

  test('response that echoed it: not reused in a rerun', async () => {
    const echoTask = posting('ask', `${fakeServer.origin}/echo/kept`, "body: { key: '${ $secrets.lure }' }")
    const flow = await published(room, ['lure'], `${echoTask}\n  - last: { set: { x: 1 } }`)
    const { id } = await ran(room, flow)
    const again = { as: room.operator, body: { from: 'last' } }
    const { status, body } = await call('POST', `${room.flows}/executions/${id}/rerun`, again)
    expect([status, body.detail]).toEqual([
      409,
      expect.stringMatching(/`ask` was too large .* contained a secret/),
    ])
  })

  test('passed to a subflow that declares the secret itself: refused', async () => {
    const child = (await published(room, ['lure'], SENT('tell', '/echo/child'))).split('/').at(-1)
    const run = (input: string) =>
      `  - sub: { run: { workflow: { namespace: test, name: ${child}, version: '1.0.0', input: ${input} } } }`
    const body = await ran(room, await published(room, ['lure'], run("{ token: '${ $secrets.lure }' }")))
    expect(body).toMatchObject({
      status: 'faulted',
      error: { detail: expect.stringMatching(/to another flow/) },
    })
    expect(body.error.type).toMatch(/configuration$/)
    expect(fakeServer.askedFor('/echo/child')).toEqual([])
  })
})

describe('secret changed while an execution runs', () => {
  test('replaced: the next attempt sends the new value', async () => {
    const [before, after] = [canary(), canary()]
    await stored(room, 'rotated', before)
    const attempt = `try: [{ ask: { call: http, with: { method: get, endpoint: '${fakeServer.origin}/rotating', headers: { x-key: '\${ $secrets.rotated }' } } } }]`
    const flow = await published(
      room,
      ['rotated'],
      `  - again: { ${attempt}, catch: { retry: { delay: PT0.2S, limit: { attempt: { count: 200 } } } } }`,
    )
    acceptedKey = after
    const body = await ran(room, flow, {}, 0)
    await eventually(async () =>
      fakeServer.askedFor('/rotating').find(({ headers }) => headers['x-key'] === before),
    )
    await stored(room, 'rotated', after)
    expect((await until(room, body.id, 'completed')).output).toEqual({ taken: true })
  })

  test('deleted or of another form: the call faults with a configuration error; stored again in the old form, it works', async () => {
    await stored(room, 'passing', { key: canary() })
    const flow = await published(
      room,
      ['passing'],
      `${LISTEN}\n${posting('ask', `${fakeServer.origin}/echo/passing`, "body: { key: '${ $secrets.passing.key }' }")}`,
    )
    const first = await ran(room, flow, {}, 0)
    expect((await remove(room, 'passing')).body.used_by).toEqual([flow.split('/').at(-1)])
    await signal(room, first.id, { type: 'go' })
    const faulted = await until(room, first.id, 'faulted')
    expect(faulted.error).toMatchObject({
      instance: '/do/1/ask',
      detail: expect.stringMatching(/`passing` is not there any more/),
    })
    expect(faulted.error.type).toMatch(/configuration$/)
    const second = await ran(room, flow, {}, 0)
    await stored(room, 'passing', { key: 'another value' })
    await signal(room, second.id, { type: 'go' })
    expect((await until(room, second.id, 'faulted')).error.type).toMatch(/expression$/)
    const third = await ran(room, flow, {}, 0)
    await stored(room, 'passing', { other: 'another value' })
    await signal(room, third.id, { type: 'go' })
    expect((await until(room, third.id, 'faulted')).error.type).toMatch(/configuration$/)
    expect(fakeServer.askedFor('/echo/passing')).toEqual([])
  })
})
