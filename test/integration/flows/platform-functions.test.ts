// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Platform functions: each is called by a flow on a worker, or has a reason why it cannot be. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import { CATALOGUE } from '../../../src/features/data-operations.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = (await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as: workspace.operator })).body
    .bucket
})
afterEach(closeSubscriptions)

interface ExpectedCall {
  readonly with: object
  readonly gives: unknown
}

const createdDocument = { name: 'things', id: '${ $context["collection.create"].id }' }
const things = { data: [{ n: 1, kept: 'yes' }] }
const object = { bucket: '${ $workflow.input.bucket }', key: 'a/b' }

/** In the order of the calls: later ones find what earlier ones created. */
const CALLS: Readonly<Record<string, ExpectedCall>> = {
  'collection.create': {
    with: { name: 'things', document: { n: 1, kept: 'yes' } },
    gives: { n: 1, kept: 'yes', _version: 1 },
  },
  'collection.get': { with: { ...createdDocument, select: 'n' }, gives: { n: 1 } },
  'collection.list': { with: { name: 'things' }, gives: things },
  'collection.query': { with: { name: 'things', filter: { n: { gte: 1 } } }, gives: things },
  'collection.list_groups': {
    with: { name: 'things', select: 'kept,total:n.sum()' },
    gives: { data: [{ kept: 'yes', total: 1 }] },
  },
  'collection.update_many': {
    with: { name: 'things', filter: { n: 9 }, data: { n: 8 } },
    gives: { verb: 'update' },
  },
  'collection.delete_many': { with: { name: 'things', filter: { n: 9 } }, gives: { verb: 'delete' } },
  'collection.aggregate': { with: { name: 'things', measures: { n: { count: true } } }, gives: { n: 1 } },
  'collection.update': {
    with: { ...createdDocument, document: { n: 2 } },
    gives: { n: 2, kept: 'yes', _version: 2 },
  },
  'collection.patch': {
    with: { ...createdDocument, operators: { inc: { n: 2 }, push: { 'seen.by': 'me' } } },
    gives: { n: 4, kept: 'yes', seen: { by: ['me'] }, _version: 3 },
  },
  'batch.run': {
    with: {
      ops: [
        { collection: 'things', op: 'create', data: { n: 7 } },
        { collection: 'things', op: 'update', id: { $ref: 0 }, inc: { n: 1 } },
        { collection: 'things', op: 'delete', id: { $ref: 0 }, if_version: 2 },
      ],
    },
    gives: { committed: true, results: [{ status: 201 }, { version: 2 }, { status: 200 }] },
  },
  'collection.delete': { with: createdDocument, gives: { deleted: true } },
  'object.put': { with: { ...object, content: { n: 3 } }, gives: { key: 'a/b' } },
  'object.get': { with: object, gives: { n: 3 } },
  'object.copy': { with: { bucket: object.bucket, from: 'a/b', to: 'a/c' }, gives: { key: 'a/c' } },
  'object.move': { with: { bucket: object.bucket, from: 'a/c', to: 'a/b' }, gives: { created: false } },
  'object.delete': { with: object, gives: { deleted: true } },
  'event.publish': { with: { topic: 'told', data: { n: 4 } }, gives: { topic: 'told' } },
  'function.invoke': { with: { id: 'double', input: { n: 4 } }, gives: 8 },
}

test('every platform function called by one flow: returns what the API returns', async () => {
  expect(Object.keys(CALLS).toSorted()).toEqual(Object.keys(CATALOGUE).toSorted())
  const source = 'export default ({ n }: { n: number }) => 2 * n'
  const double = { workspace_id: workspace.workspaceId, name: 'double', source }
  expect((await call('POST', '/v1/functions', { as: workspace.operator, body: double })).status).toBe(201)
  const stream = await subscribeToEvents(workspace.service, 'topic=told')
  const tasks = Object.entries(CALLS).map(([name, { with: args }], nth) => {
    const as = `\${ ($context // {}) + { ${JSON.stringify(name)}: . } }`
    return `  - ${JSON.stringify({ [`c${nth}`]: { call: name, with: args, export: { as } } })}`
  })
  const executions = new Executions(workspace)
  const flow = await executions.publish([...tasks, "  - all: { set: '${ $context }' }"].join('\n'))
  const run = await executions.ended(await executions.start(flow, { input: { bucket } }))
  expect(run.error).toBeNull()
  for (const [name, { gives }] of Object.entries(CALLS))
    expect({ [name]: run.output[name] }).toMatchObject({ [name]: gives })
  expect(await receivedAtLeast(stream, 1)).toMatchObject([{ data: { data: { n: 4 } } }])
  const remaining = await call('GET', '/v1/collections/things/documents', { as: workspace.service })
  expect(remaining.body.data).toEqual([])
  expect((await call('GET', `/v1/objects/${bucket}/a/b`, { as: workspace.service })).status).toBe(404)
})

/** Operations on data that flows cannot call, with the reason. A new one belongs in the catalogue or here. */
const NOT_CALLABLE: Readonly<Record<string, string>> = {
  'flow.get_execution': 'for clients with a key; a flow runs another with `run: workflow`',
  'flow.get_result': 'for clients with a key; a flow runs another with `run: workflow`',
  'flow.list_executions': 'for clients with a key; a flow runs another with `run: workflow`',
  'flow.start': 'for clients with a key; a flow runs another with `run: workflow`',
  'flow.watch_execution': 'for clients with a key; a flow runs another with `run: workflow`',
  'inbox.decide': 'people decide; a flow asks them with `approve`',
  'inbox.get': 'people decide; a flow asks them with `approve`',
  'inbox.list': 'people decide; a flow asks them with `approve`',
  'analytics.query': 'for who watches a workspace; no work depends on it',
  'collections.list': 'a flow names the collections that it works on',
  'collection.import': 'lines of any length; a step carries one value',
  'collection.export': 'lines of any length; a step carries one value',
  'user.export_data': 'for people and the apps that serve them; lines of any length',
  'bulk_change.get': 'for callers of `collection.update_many`',
  'bulk_change.list': 'for callers of `collection.update_many`',
  'bulk_change.cancel': 'for callers of `collection.update_many`',
  'collection.batch': 'a flow has `batch.run`, which takes documents of any collection',
  'object.describe': 'not yet: a flow keeps what it needs to know in a collection',
  'object.update': 'not yet: a flow keeps what it needs to know in a collection',
  'object.remove_all': 'not yet: a flow deletes the objects that it made',
  'object.get_removal': 'for callers of `object.remove_all`',
  'object.presign': 'for pages; a flow has the rights itself',
  'object.upload_form': 'for forms of browsers',
  'upload.create': 'for senders whose connections break',
  'upload.head': 'for senders whose connections break',
  'upload.append': 'for senders whose connections break',
  'upload.delete': 'for senders whose connections break',
  'object.head': 'not yet: `object.get` faults where there is none',
  'object.list': 'not yet: a flow knows its keys, or keeps them in a collection',
  'function.fetch': 'streams in both directions; a flow calls `function.invoke`',
  'invocation.get': 'for clients with a key; a flow has the result of its call',
  'invocation.get_operation': 'for callers of `function.invoke` that do not wait',
  'invocation.list': 'for clients with a key; a flow has the result of its call',
  'invocation.logs': 'for clients with a key; a flow has the result of its call',
  'invocation.watch_logs': 'a stream for clients with a key',
  'collection.subscribe': 'a stream without an end; a flow has `listen` for it',
  'event.subscribe': 'a stream without an end; a flow has `listen` for it',
}

test('every operation on data: is callable by flows or listed with a reason', () => {
  const data = OPERATIONS.filter(({ domain }) => domain === 'data_access').map(({ name }) => name)
  expect([...Object.keys(CATALOGUE), ...Object.keys(NOT_CALLABLE)].toSorted()).toEqual(data.toSorted())
})
