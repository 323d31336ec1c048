// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Temporal stores no tenant data in plain text; names, steps and error types stay readable. */

import { expect, test } from 'vitest'
import { textsIn } from '../../support/clients/histories.ts'
import { aRoom, call, eventually, type Room, unique } from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const CANARY = unique('canary')

async function publish(room: Room, name: string, tasks: string): Promise<void> {
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}`
  const made = await call('POST', `${room.flows}/definitions`, { as: room.operator, body: { name, source } })
  expect(made.body.faults).toEqual([])
  await call('POST', `${room.flows}/definitions/${name}/versions`, { as: room.operator, body: {} })
}

const start = async (room: Room, name: string, input: unknown) =>
  (await call('POST', `${room.flows}/definitions/${name}/executions`, { as: room.operator, body: { input } }))
    .body

const until = (room: Room, id: string, status: string) =>
  eventually(async () => {
    const { body } = await call('GET', `${room.flows}/executions/${id}`, { as: room.operator })
    return body.status === status ? body : undefined
  })

const sendCommand = (room: Room, id: string, command: string, body: object) =>
  call('POST', `${room.flows}/executions/${id}/${command}`, { as: room.operator, body })

/** All texts that Temporal has of a tenant: histories, and lists and descriptions of its workflows. */
async function storedTexts(tenantId: string, least: number): Promise<readonly string[]> {
  return withRawClient(async (client) => {
    const query = `TenantId = '${tenantId}'`
    const ids = await eventually(async () => {
      const found: string[] = []
      for await (const { workflowId, status } of client.workflow.list({ query }))
        if (status.name !== 'RUNNING') found.push(workflowId)
      return found.length >= least ? found : undefined
    })
    const all: string[] = []
    for (const id of ids) {
      const handle = client.workflow.getHandle(id)
      all.push(...textsIn(await handle.fetchHistory()), ...textsIn((await handle.describe()).raw))
    }
    return all
  })
}

test('canary in input, output, events, comments and errors: absent from Temporal; flow names, steps and error types present', async () => {
  const room = await aRoom()
  const me = await call('GET', '/v1/me', { as: room.operator })
  const source = 'export default (input: { x: string }) => ({ x: input.x })'
  const deploy = { workspace_id: room.workspaceId, name: 'same', source }
  await call('POST', '/v1/functions', { as: room.operator, body: deploy })
  await publish(room, 'below', "  - hand: { set: { x: '${ .x }' } }")
  await publish(
    room,
    'all-ways',
    `  - keep: { call: collection.create, with: { name: kept, document: { x: '\${ .x }' } } }
  - same: { call: function.invoke, with: { id: same, input: '\${ { x: .x } }' } }
  - lower: { run: { workflow: { namespace: n, name: below, version: '1.0.0', input: '\${ { x: .x } }' } } }
  - hear: { listen: { to: { one: { with: { type: told } } } } }
  - ask: { approve: { approvers: ['${me.body.subject}'], fourEyes: false } }
  - rest: { wait: PT1S }
  - finish: { set: { x: '\${ $workflow.input.x }' } }`,
  )
  await publish(
    room,
    'all-errors',
    `  - guard:
      try: [{ wrong: { call: collection.get, with: { name: '\${ .x }', id: '\${ .x }' } } }]
      catch: { do: [{ note: { set: { x: '\${ .x }' } } }] }
  - burst:
      raise: { error: { type: '\${ "https://x.test/" + .x }', status: 418, title: '\${ .x }', detail: '\${ .x }', instance: '\${ "/" + .x }' } }`,
  )
  const good = await start(room, 'all-ways', { x: CANARY })
  await until(room, good.id, 'waiting')
  await eventually(async () => {
    const { status } = await sendCommand(room, good.id, 'signal', {
      event: { type: 'told', data: { x: CANARY } },
    })
    return status === 202 ? true : undefined
  })
  await eventually(async () => {
    const approved = { approved: true, comment: CANARY }
    const { status } = await sendCommand(room, good.id, 'approve', approved)
    return status === 200 ? true : undefined
  })
  const done = await until(room, good.id, 'completed')
  expect(done.output).toEqual({ x: CANARY })
  const bad = await start(room, 'all-errors', { x: CANARY })
  const failed = await until(room, bad.id, 'faulted')
  expect(failed.error.detail).toBe(CANARY)

  const texts = await storedTexts(room.tenantId, 5)
  expect(texts.filter((text) => text.includes(CANARY))).toEqual([])
  const found = (text: string) => texts.some((each) => each.includes(text))
  const calls = ['keep: call collection.create', 'guard / wrong: call collection.get', 'rest: wait']
  for (const shown of ['Flow all-ways v1', ...calls, 'raised (418)'])
    expect([shown, found(shown)]).toEqual([shown, true])
})
