/** The platform MCP server: each tool that writes is called, does what it says, and leaves its entry in the audit log. */

import { beforeAll, describe, expect, test } from 'vitest'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { claimsOf, inWorkspace } from '../../support/clients/browser.ts'
import { callTool, rpc } from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const PATH = '/v1/mcp/platform/mcp'

let workspace: TestWorkspace
let ws: string
let admin: Caller
let service: Caller
/** The writing tools that were called with success. */
const succeeded = new Set<string>()

beforeAll(async () => {
  workspace = await createTestWorkspace()
  ws = workspace.workspaceId
  admin = await tokenAs('ada', 'workspace_admin')
  service = await tokenAs('worker', 'service')
})

const tokenAs = (sub: string, role: string) => tokenOf({ sub, roles: [role], ...inWorkspace(workspace) })
const subjectOf = ({ authorization = '' }: Caller) => claimsOf(authorization).sub

/** The result of a tool, and the id of its request. @throws if it is an error */
async function use(as: Caller, tool: string, args: Record<string, unknown>) {
  const { body, headers } = await callTool(PATH, as, tool, args)
  const { content, isError } = body.result
  if (isError) throw new Error(content[0].text)
  // Documents and outputs are within a fence, which says that they are data.
  const text = (content[0].text as string).replace(/^[^{]*\n(?=\{)/, '').replace(/\}\n[^}]*$/, '}')
  return { value: JSON.parse(text), requestId: headers.get('x-request-id') }
}

const read = async (as: Caller, tool: string, args: Record<string, unknown>) =>
  (await use(as, tool, args)).value

/** Calls a tool that writes: it has one entry in the audit log, with the path of the same operation on HTTP. */
async function write(as: Caller, tool: string, args: Record<string, unknown>, target: string) {
  const { value, requestId } = await use(as, tool, args)
  const found = await eventually(async () => {
    const entries = await entriesOfWorkspace(workspace)
    // A call of a hosted tool has an entry of what the tool does as well.
    const own = entries.filter(
      ({ request_id, operation }) => request_id === requestId && operation.replaceAll('.', '_') === tool,
    )
    return own.length > 0 ? own : undefined
  })
  const actor = { subject: subjectOf(as), kind: 'token' }
  expect(found).toMatchObject([{ outcome: 'done', workspace_id: ws, target, actor }])
  succeeded.add(tool)
  return value
}

const flow = (name: string, ...tasks: string[]) =>
  [
    `document: { dsl: '1.0.3', namespace: tools, name: ${name}, version: '1.0.0' }`,
    'do:',
    ...tasks.map((task) => `  - ${task}`),
  ].join('\n')

/** Creates and publishes a flow as admin. */
async function publishFlow(name: string, ...tasks: string[]): Promise<void> {
  const definitions = `${workspace.flows}/definitions`
  const made = await write(
    admin,
    'flow_create',
    { workspace_id: ws, source: flow(name, ...tasks) },
    definitions,
  )
  expect(made).toMatchObject({ name, valid: true })
  const published = await write(
    admin,
    'flow_version_create',
    { workspace_id: ws, flow: name },
    `${definitions}/${name}/versions`,
  )
  expect(published).toMatchObject({ version: 1 })
}

describe('admin', () => {
  test('declared collection → MCP server → version that needs approval → approved → called', async () => {
    const servers = `/v1/mcp/workspaces/${ws}/servers`
    const desk = `${servers}/desk`
    const schema = { properties: { title: { type: 'string' } }, additionalProperties: false }
    const declaration = { workspace_id: ws, collection: 'tickets', store: 'relational', schema }
    const declared = await write(admin, 'schema_create', declaration, '/v1/schemas')
    expect(declared).toMatchObject({ collection: 'tickets', mode: 'enforce' })
    const wider = { ...schema, properties: { ...schema.properties, done: { type: 'boolean' } } }
    const change = { id: declared.id, schema: wider, wait: 30 }
    await write(admin, 'schema_update', change, `/v1/schemas/${declared.id}`)
    const seen = await read(admin, 'schema_get', { id: declared.id })
    expect(Object.keys(seen.schema.properties).sort()).toEqual(['done', 'title'])

    const made = await write(
      admin,
      'mcp_server_create',
      { workspace_id: ws, name: 'Desk', slug: 'desk' },
      servers,
    )
    expect(made).toMatchObject({ slug: 'desk', state: 'created', created_by: 'ada' })
    const server = { workspace_id: ws, server: 'desk' }
    const reading = { 'collections:tickets:list': { enabled: true } }
    const writing = { 'collections:tickets:create': { enabled: true, scope: 'tickets_list' } }
    const curate = (tools: object) =>
      write(admin, 'mcp_curation_replace', { ...server, tools }, `${desk}/curation`)
    const publish = () => write(admin, 'mcp_version_create', server, `${desk}/publish`)
    const callDesk = (tool: string, args: object) =>
      write(admin, 'mcp_server_call', { ...server, tool, arguments: args }, `${desk}/call`)
    expect(await curate(reading)).toMatchObject({ state: 'curated', curation: { tools: reading } })
    expect(await publish()).toMatchObject({ version: 1, state: 'active', class: 'safe' })
    expect(await callDesk('tickets_list', {})).toMatchObject({
      is_error: false,
      structured_content: { data: [] },
    })

    await curate({ ...reading, ...writing })
    const waiting = await publish()
    expect(waiting).toMatchObject({ version: 2, state: 'needs_approval' })
    expect(waiting.diff.widened).not.toEqual([])
    await expect(callDesk('tickets_create', { title: 'early' })).rejects.toThrow(/^not_found/)
    const approval = await write(
      admin,
      'mcp_version_approve',
      { ...server, version: 2 },
      `${desk}/versions/2/approve`,
    )
    expect(approval).toMatchObject({ version: 2, active: true, state: 'published', approved_by: 'ada' })
    expect(await callDesk('tickets_create', { title: 'Printer', done: false })).toMatchObject({
      is_error: false,
      structured_content: { title: 'Printer', done: false },
    })
    expect((await callDesk('tickets_list', {})).structured_content.data).toMatchObject([{ title: 'Printer' }])
    const calls = await read(admin, 'mcp_call_list', server)
    expect(calls.data.map(({ tool, channel, outcome }: never) => [tool, channel, outcome])).toEqual(
      expect.arrayContaining([
        ['tickets_create', 'rest', 'ok'],
        ['tickets_list', 'rest', 'ok'],
      ]),
    )
  })

  test('flow: replaced draft, execution started and cancelled', async () => {
    await publishFlow('slow', 'pause: { wait: { seconds: 300 } }')
    const slow = `${workspace.flows}/definitions/slow`
    const source = flow('slow', 'pause: { wait: { seconds: 200 } }')
    expect(await write(admin, 'flow_update', { workspace_id: ws, flow: 'slow', source }, slow)).toMatchObject(
      { source },
    )
    const started = await write(
      admin,
      'execution_create',
      { workspace_id: ws, flow: 'slow' },
      `${slow}/executions`,
    )
    expect(started).toMatchObject({ flow_name: 'slow', version: 1, started_by: 'ada' })
    const { id } = started
    await write(
      admin,
      'execution_cancel',
      { workspace_id: ws, id },
      `${workspace.flows}/executions/${id}/cancel`,
    )
    await eventually(async () =>
      (await read(admin, 'execution_get', { workspace_id: ws, id })).status === 'cancelled'
        ? true
        : undefined,
    )
  })
})

describe('people decide', () => {
  const startAsking = async (name: string, approver: string) => {
    await publishFlow(
      name,
      `ask: { approve: { title: 'Pay 40?', approvers: [${approver}] } }`,
      "paid: { set: { paid: '${ .approved }' } }",
    )
    const started = await write(service, 'flow_start', { flow: name }, `/v1/flows/${name}/executions`)
    expect(started).toMatchObject({ flow_name: name, started_by: 'worker' })
    return started.id as string
  }
  const openOf = (execution: string, list: () => Promise<{ data: { execution_id: string; id: string }[] }>) =>
    eventually(async () => (await list()).data.find(({ execution_id }) => execution_id === execution))
  const resultOf = (id: string) => read(service, 'flow_get_result', { id, wait: 30 })

  test('approval_decide: an admin approves what a service has started', async () => {
    const execution = await startAsking('payment', 'bob')
    const bob = await tokenAs('bob', 'workspace_admin')
    const { id } = await openOf(execution, () => read(bob, 'approval_list', { workspace_id: ws, mine: true }))
    const verdict = { workspace_id: ws, id, approved: true, comment: 'Fine' }
    await expect(use(admin, 'approval_decide', verdict)).rejects.toThrow(/approver/)
    const decided = await write(bob, 'approval_decide', verdict, `${workspace.flows}/approvals/${id}/decide`)
    expect(decided).toMatchObject({
      status: 'approved',
      decisions: [{ by: 'bob', approved: true, comment: 'Fine' }],
    })
    expect(await resultOf(execution)).toMatchObject({ status: 'completed', output: { paid: true } })
    await expect(use(bob, 'approval_decide', verdict)).rejects.toThrow(/^state_conflict/)
  })

  test('inbox_decide: a service decides what names it, and rejects', async () => {
    const execution = await startAsking('refusal', 'dora')
    const dora = await tokenAs('dora', 'service')
    const { id } = await openOf(execution, () => read(dora, 'inbox_list', { mine: true }))
    const decided = await write(dora, 'inbox_decide', { id, approved: false }, `/v1/approvals/${id}/decide`)
    expect(decided).toMatchObject({ status: 'rejected', decisions: [{ by: 'dora', approved: false }] })
    expect(await resultOf(execution)).toMatchObject({ status: 'completed', output: { paid: false } })
  })
})

describe('service', () => {
  test('documents: created, updated, patched, deleted', async () => {
    const documents = '/v1/collections/cards/documents'
    const name = 'cards'
    const document = { title: 'One', tags: { a: 1, b: 2 } }
    const made = await write(service, 'collection_create', { name, document }, documents)
    expect(made).toMatchObject({ ...document, _version: 1 })
    const { id } = made
    const change = (tool: string, more: object) =>
      write(service, tool, { name, id, ...more }, `${documents}/${id}`)
    const updated = await change('collection_update', { document: { title: 'Two' } })
    expect(updated).toMatchObject({ title: 'Two', tags: { a: 1, b: 2 }, _version: 2 })
    const patched = await change('collection_patch', { document: { tags: { b: null } } })
    expect(patched).toMatchObject({ title: 'Two', _version: 3 })
    expect(patched.tags).toEqual({ a: 1 })
    const stale = { name, id, document: { title: 'Three' }, if_match: '"1"' }
    await expect(use(service, 'collection_update', stale)).rejects.toThrow(/^precondition_failed/)
    const rest = await call('GET', `${documents}/${id}`, { as: workspace.service })
    expect(rest.body).toEqual(patched)
    const ops = [
      { collection: name, op: 'create', data: { of: id } },
      { collection: name, op: 'update', id: { $ref: 0 }, inc: { n: 1 } },
    ]
    const batch = await write(service, 'batch_run', { ops }, '/v1/batch')
    expect(batch).toMatchObject({ committed: true, results: [{ status: 201 }, { status: 200, version: 2 }] })
    expect(await change('collection_delete', {})).toEqual({ id, deleted: true })
    expect((await call('GET', `${documents}/${id}`, { as: workspace.service })).status).toBe(404)
  })

  test('function: deployed by an admin, invoked by a service', async () => {
    const source = 'export default ({ n }) => ({ doubled: 2 * n })'
    const deployed = await write(
      admin,
      'function_create',
      { workspace_id: ws, name: 'double', source },
      '/v1/functions',
    )
    expect(deployed).toMatchObject({ name: 'double', version: 1 })
    const target = `/v1/functions/${deployed.id}/invoke`
    const invoked = await write(service, 'function_invoke', { id: deployed.id, input: { n: 21 } }, target)
    expect(invoked).toEqual({ doubled: 42 })
    await write(service, 'function_invoke', { id: 'double', input: { n: 1 } }, '/v1/functions/double/invoke')
  })
})

test('every writing tool that is listed was called above', async () => {
  const listed = await Promise.all(
    [admin, service].map(async (as) => (await rpc(PATH, as, 'tools/list')).body.result.tools),
  )
  const writing = listed.flat().filter(({ annotations }) => !annotations.readOnlyHint)
  expect([...succeeded].sort()).toEqual([...new Set(writing.map(({ name }) => name))].sort())
})
