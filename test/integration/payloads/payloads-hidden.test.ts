// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Temporal stores no tenant data in plain text, and no path of a source file; names, steps and error types stay readable. */

import { expect, test } from 'vitest'
import { textsIn } from '../../support/clients/histories.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const CANARY = unique('canary')

async function publish(workspace: TestWorkspace, name: string, tasks: string): Promise<void> {
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}`
  const made = await call('POST', `${workspace.flows}/definitions`, {
    as: workspace.operator,
    body: { name, source },
  })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as: workspace.operator, body: {} })
}

const start = async (workspace: TestWorkspace, name: string, input: unknown) =>
  (
    await call('POST', `${workspace.flows}/definitions/${name}/executions`, {
      as: workspace.operator,
      body: { input },
    })
  ).body

const until = (workspace: TestWorkspace, id: string, status: string) =>
  eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })
    return body.status === status ? body : undefined
  })

const sendCommand = (workspace: TestWorkspace, id: string, command: string, body: object) =>
  call('POST', `${workspace.flows}/executions/${id}/${command}`, { as: workspace.operator, body })

/** All texts that Temporal has of a tenant: histories, and lists and descriptions of its workflows. */
async function storedTexts(tenantId: string, workflows: readonly string[]): Promise<readonly string[]> {
  return withRawClient(async (client) => {
    const query = `TenantId = '${tenantId}'`
    const ids = await eventually(async () => {
      const found: string[] = []
      for await (const { workflowId, status } of client.workflow.list({ query }))
        if (status.name !== 'RUNNING') found.push(workflowId)
      return workflows.every((id) => found.includes(id)) ? found : undefined
    })
    const all: string[] = []
    for (const id of ids) {
      const handle = client.workflow.getHandle(id)
      all.push(...textsIn(await handle.fetchHistory()), ...textsIn((await handle.describe()).raw))
    }
    return all
  })
}

interface StoredPayload {
  readonly metadata?: Readonly<Record<string, Uint8Array>> | null
  readonly data?: Uint8Array | null
}

/** What Temporal has of the texts of each failure, of causes as well. */
function failuresIn(value: unknown): StoredPayload[] {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return []
  const { encodedAttributes } = value as { encodedAttributes?: StoredPayload | null }
  const own = encodedAttributes ? [encodedAttributes] : []
  return [...own, ...Object.values(value).flatMap(failuresIn)]
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const toWire = ({ metadata, data }: StoredPayload) => ({
  metadata: Object.fromEntries(Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)])),
  data: base64(data ?? new Uint8Array()),
})

/** The stack traces of a workflow's failures, as the Temporal UI shows them to an operator. */
async function shownStacks(workspace: TestWorkspace, workflowId: string): Promise<string[]> {
  const history = await withRawClient((client) => client.workflow.getHandle(workflowId).fetchHistory())
  const body = { payloads: failuresIn(history).map(toWire) }
  const reply = await call('POST', '/v1/codec/decode', { as: workspace.operator, body })
  return reply.body.payloads.map(({ data }: { data: string }) => JSON.parse(atob(data)).stack_trace)
}

test('canary in input, output, events, comments and errors: absent from Temporal; flow names, steps and error types present', async () => {
  const workspace = await createTestWorkspace()
  const me = await call('GET', '/v1/me', { as: workspace.operator })
  const source = 'export default (input: { x: string }) => ({ x: input.x })'
  const deploy = { workspace_id: workspace.workspaceId, name: 'same', source }
  await call('POST', '/v1/functions', { as: workspace.operator, body: deploy })
  await publish(workspace, 'below', "  - hand: { set: { x: '${ .x }' } }")
  await publish(
    workspace,
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
    workspace,
    'all-errors',
    `  - guard:
      try: [{ wrong: { call: collection.get, with: { name: '\${ .x }', id: '\${ .x }' } } }]
      catch: { do: [{ note: { set: { x: '\${ .x }' } } }] }
  - burst:
      raise: { error: { type: '\${ "https://x.test/" + .x }', status: 418, title: '\${ .x }', detail: '\${ .x }', instance: '\${ "/" + .x }' } }`,
  )
  const good = await start(workspace, 'all-ways', { x: CANARY })
  await until(workspace, good.id, 'waiting')
  await eventually(async () => {
    const { status } = await sendCommand(workspace, good.id, 'signal', {
      event: { type: 'told', data: { x: CANARY } },
    })
    return status === 202 ? true : undefined
  })
  await eventually(async () => {
    const approved = { approved: true, comment: CANARY }
    const { status } = await sendCommand(workspace, good.id, 'approve', approved)
    return status === 200 ? true : undefined
  })
  const done = await until(workspace, good.id, 'completed')
  expect(done.output).toEqual({ x: CANARY })
  const bad = await start(workspace, 'all-errors', { x: CANARY })
  const failed = await until(workspace, bad.id, 'faulted')
  expect(failed.error.detail).toBe(CANARY)

  const texts = await storedTexts(workspace.tenantId, [good.workflow_id, bad.workflow_id])
  expect(texts.filter((text) => text.includes(CANARY))).toEqual([])
  const found = (text: string) => texts.some((each) => each.includes(text))
  const stacks = await shownStacks(workspace, bad.workflow_id)
  expect(stacks.length).toBeGreaterThan(0)
  expect(stacks.join('\n')).not.toMatch(/:\d+:\d+|[\w-]\.m?[jt]s\b/)
  const calls = ['keep: call collection.create', 'guard / wrong: call collection.get', 'rest: wait']
  for (const name of ['Flow all-ways v1', ...calls, 'raised (418)'])
    expect([name, found(name)]).toEqual([name, true])
})
