/** `call: openapi` and authentication through the API, on the real Temporal, against servers on loopback. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Outside } from '../support/outside.ts'
import { aRoom, call, type Reply, type Room, unique } from '../support/tenants.ts'

let room: Room
let outside: Outside

beforeAll(async () => {
  room = await aRoom()
  outside = await Outside.open()
  const body = { workspace_id: room.workspaceId, egress: { allow: [outside.place] } }
  expect((await call('POST', '/v1/services/configure', { as: room.operator, body })).status).toBe(200)
})
afterAll(() => outside.close())

/** Publishes the tasks as a flow and runs it once. */
async function ran(tasks: string, input: unknown = {}, as: Room = room): Promise<Reply> {
  const name = unique('f')
  const source = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}\n`
  const headers = { 'content-type': 'application/yaml' }
  const made = await call('POST', `${as.flows}/definitions`, { as: as.operator, body: source, headers })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  const at = `${as.flows}/definitions/${made.body.id}`
  const version = await call('POST', `${at}/versions`, { as: as.operator, body: {} })
  expect(version.status, JSON.stringify(version.body)).toBe(201)
  return call('POST', `${at}/executions`, {
    as: as.operator,
    body: { input },
    headers: { prefer: 'wait=20' },
  })
}

const pets = (rest: string) => `
  - ask:
      call: openapi
      with:
        document: { endpoint: '${outside.origin}/v2/swagger.json' }
        ${rest.replaceAll('\n', '\n        ')}`

describe('call: openapi', () => {
  test('an operation is found in its document and called with its parameters', async () => {
    const { body } = await ran(pets("operationId: getPetById\nparameters: { petId: '${ .id }' }"), { id: 7 })
    expect(body).toMatchObject({ status: 'completed', output: { id: 7, name: 'Milou' } })
    expect(outside.askedFor('/v2/pet/7')).toHaveLength(1)
  })
})
