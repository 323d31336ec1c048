/** The OpenAPI documents against the real platform: that of a workspace, and the events of streams. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { OPENAPI_LIMITS } from '../../../src/features/openapi/limits.ts'
import { closeSubscriptions, type ReceivedEvent, subscribeToStream } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployed } from '../../support/fixtures/functions.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const SLOT = { type: 'object', required: ['at'], properties: { at: { type: 'string', format: 'date-time' } } }
const BOOKINGS = {
  type: 'object',
  required: ['court', 'state', 'slot'],
  additionalProperties: false,
  properties: {
    court: { type: 'string' },
    state: { type: 'string', enum: ['open', 'paid'], default: 'open' },
    slot: { $ref: '#/$defs/slot' },
  },
  $defs: { slot: SLOT },
}

const documentOf = (of: TestWorkspace, as: Caller = of.operator, headers: Record<string, string> = {}) =>
  call('GET', `/v1/workspaces/${of.workspaceId}/openapi.json`, { as, headers })

async function declare(of: TestWorkspace, collection: string, schema: object, more: object = {}) {
  const body = { workspace_id: of.workspaceId, collection, store: 'relational', schema, ...more }
  const { status, body: made } = await call('POST', '/v1/schemas', { as: of.operator, body })
  expect(status, JSON.stringify(made)).toBe(201)
}

/** Validates by a pointer into a document. */
function validatorOf(document: object): (pointer: string, value: unknown) => unknown[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema({ ...document, $id: 'https://tenon.example/' })
  return (pointer, value) => {
    const validate = ajv.getSchema(`https://tenon.example/${pointer}`)
    expect([pointer, validate]).toEqual([pointer, expect.anything()])
    void validate?.(value)
    return [...(validate?.errors ?? [])]
  }
}

test('document of a workspace: has its collections, functions and flows with their types', async () => {
  await declare(workspace, 'bookings', BOOKINGS)
  await declare(
    workspace,
    'Deleted',
    { type: 'object', properties: { reason: { type: 'string' } } },
    { mode: 'warn' },
  )
  await deployed(
    workspace,
    `export const input = { type: 'object', properties: { hours: { type: 'number' } } }
    export default ({ hours }) => hours * 20`,
    {},
    'price',
  )
  await deployed(workspace, 'export default () => 1', {}, 'untyped')
  const flow = await new Executions(workspace).publish('  - greet: { set: { message: hello } }\n', {
    more: `input:\n  schema:\n    document: { type: object, required: [name], properties: { name: { type: string } } }\n`,
  })
  const { status, body: document } = await documentOf(workspace)
  expect([status, document.openapi]).toEqual([200, '3.1.0'])
  const paths = Object.entries(document.paths as Record<string, object>)
  expect(paths.map(([path, methods]) => [path, Object.keys(methods).sort()])).toEqual([
    ['/v1/collections/Deleted/documents', ['get', 'post']],
    ['/v1/collections/Deleted/documents/{id}', ['delete', 'get', 'patch', 'put']],
    ['/v1/collections/Deleted/query', ['post']],
    ['/v1/collections/Deleted/subscribe', ['get']],
    ['/v1/collections/bookings/documents', ['get', 'post']],
    ['/v1/collections/bookings/documents/{id}', ['delete', 'get', 'patch', 'put']],
    ['/v1/collections/bookings/query', ['post']],
    ['/v1/collections/bookings/subscribe', ['get']],
    ['/v1/functions/price/invoke', ['post']],
    [`/v1/flows/${flow}/executions`, ['post']],
  ])
  const errorsOf = validatorOf(document)
  const errors = (name: string, value: unknown) => errorsOf(`#/components/schemas/${name}`, value)
  const booking = { court: 'centre', slot: { at: '2026-03-02T18:00:00Z' } }
  const made = await call('POST', '/v1/collections/bookings/documents', {
    as: workspace.service,
    body: booking,
  })
  expect(errors('collections.bookings.fields', booking)).toEqual([])
  expect(errors('collections.bookings', made.body)).toEqual([])
  expect(errors('collections.bookings.changes', { state: 'paid' })).toEqual([])
  // Each type refuses what the platform refuses.
  expect(errors('collections.bookings.fields', { court: 'centre', slot: {} })).not.toEqual([])
  expect(errors('collections.bookings', booking)).not.toEqual([])
  expect(errors('collections.bookings.changes', { state: 'lost' })).not.toEqual([])
  expect(errors('functions.price.input', { hours: 'two' })).not.toEqual([])
  expect(errors(`flows.${flow}.input`, {})).not.toEqual([])
  // The platform has a schema of that name, too.
  expect(errors('collections.Deleted.fields', { reason: 1 })).not.toEqual([])
  expect(errors('Deleted', { id: made.body.id, deleted: true })).toEqual([])
})

test('document of a workspace: ETag changes with a declaration, and others see none of it', async () => {
  const other = await addTestWorkspace(workspace)
  const empty = await documentOf(other)
  expect([empty.status, empty.body.paths]).toEqual([200, {}])
  const tag = empty.headers.get('etag') ?? ''
  expect((await documentOf(other, other.operator, { 'if-none-match': tag })).status).toBe(304)
  await declare(other, 'courts', { type: 'object', properties: { name: { type: 'string' } } })
  const filled = await documentOf(other, other.operator, { 'if-none-match': tag })
  expect([filled.status, Object.keys(filled.body.paths).length]).toEqual([200, 4])
  const { workspaceId: workspace_id, tenantId: tenant_id } = other
  const viewer = await tokenOf({ sub: 'viewer', tenant_id, workspace_id, roles: ['viewer'] })
  expect((await documentOf(other, viewer)).status).toBe(200)
  expect((await documentOf(workspace, viewer)).status).toBe(404)
  expect((await documentOf(other, other.service)).body.code).toBe('privilege_domain_mismatch')
})

test('document of a workspace with more than it describes: refused', async () => {
  const full = await addTestWorkspace(workspace)
  const description = 'x'.repeat(60_000)
  const count = Math.ceil(OPENAPI_LIMITS.schemaBytesMax / description.length)
  for (const index of Array.from({ length: count }).keys())
    await declare(full, `c${index}`, { type: 'object', description })
  const { status, body } = await documentOf(full)
  expect([status, body.code]).toEqual([413, 'output_too_large'])
})

/** The operation of a stream, by the path in the document. */
async function expectDescribed(path: string, received: readonly ReceivedEvent[]): Promise<string[]> {
  const { body: document } = await call('GET', '/openapi.json')
  const errorsOf = validatorOf(document)
  const media = `paths/${path.replaceAll('/', '~1')}/get/responses/200/content/text~1event-stream/x-events`
  for (const { event = 'message', data } of received)
    expect([event, errorsOf(`#/${encodeURI(media)}/${event}/data`, data)]).toEqual([event, []])
  return received.map(({ event = 'message' }) => event)
}

test('streams: send the events that the document describes', async () => {
  const { service, operator, flows } = workspace
  await declare(workspace, 'games', { type: 'object', properties: { won: { type: 'boolean' } } })
  const live = await subscribeToStream(service, '/v1/collections/games/subscribe?won=eq.true')
  const topics = await subscribeToStream(
    service,
    '/v1/events/subscribe?topic=collections.games.*&last_event_id=0-1',
  )
  const { body: game } = await call('POST', '/v1/collections/games/documents', {
    as: service,
    body: { won: true },
  })
  const path = `/v1/collections/games/documents/${game.id}`
  await call('PUT', path, { as: service, body: { won: true, n: 1 } })
  await call('PUT', path, { as: service, body: { won: false } })
  await call('DELETE', path, { as: service })
  const executions = new Executions(workspace)
  const id = await executions.start(await executions.publish('  - greet: { set: { message: hello } }\n'))
  await executions.ended(id)
  const execution = await subscribeToStream(operator, `${flows}/executions/${id}/events`)
  const fn = await deployed(workspace, 'export default () => console.info("printed")')
  const { headers } = await call('POST', `/v1/functions/${fn}/invoke`, { as: service, body: {} })
  const run = headers.get('x-run-id')
  const logs = await subscribeToStream(operator, `/v1/functions/${fn}/runs/${run}/logs/stream`)
  await eventually(async () => {
    const isOver = [execution, logs].every((one) => one.some(({ event }) => event === 'end'))
    return (isOver && live.length >= 3 && topics.length >= 4) || undefined
  })
  expect(await expectDescribed('/v1/collections/{name}/subscribe', live)).toContain('enter')
  expect(await expectDescribed('/v1/events/subscribe', topics)).toContain('message')
  expect(await expectDescribed('/v1/flows/workspaces/{ws}/executions/{id}/events', execution)).toContain(
    'message',
  )
  expect(await expectDescribed('/v1/functions/{id}/runs/{run}/logs/stream', logs)).toContain('message')
})
