// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The right to see payloads: what is left out or refused without it, on every route, and the audit entry of each look with it. */

import { beforeAll, describe, expect, test } from 'vitest'
import { ok } from '../support/clients/mcp.ts'
import { post } from '../support/fixtures/admins.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'

/** In every payload, and nowhere else. */
const SECRET = unique('payload')

const FLOW = `document: { dsl: '1.0.3', namespace: n, name: ask, version: '1.0.0' }
do:
  - keep: { set: { kept: '\${ .text }' } }
  - fail:
      try:
        - boom: { raise: { error: { type: https://example.test/boom, status: 500, title: t, detail: '\${ .kept }' } } }
      catch: { as: error, do: [{ caught: { set: { kept: '\${ $error.detail }' } } }] }
  - decide: { approve: { title: 'Pay?', approvers: ['role:tenant_admin'] } }`

const SOURCE = `export default async (input, { log }) => { log.info(input.text); return { said: input.text } }`

let workspace: TestWorkspace
let callers: Record<'viewer' | 'developer' | 'workspaceAdmin' | 'reader' | 'otherKey', Caller>
let executionId: string
let approvalId: string
let functionId: string
let runId: string

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const { tenantId, workspaceId, operator, flows, service } = workspace
  const place = { tenant_id: tenantId, workspace_id: workspaceId }
  const token = (sub: string, ...roles: string[]) => tokenOf({ sub, roles, ...place })
  callers = {
    viewer: await token('vera', 'viewer'),
    developer: await token('dora', 'developer'),
    workspaceAdmin: await token('wanda', 'workspace_admin'),
    reader: await token('rita', 'viewer', 'payload_reader'),
    otherKey: {
      apikey: (
        await post(operator, '/v1/api-keys', { workspace_id: workspaceId, kind: 'service', name: 'k' })
      ).key,
    },
  }
  await post(operator, `${flows}/definitions`, { name: 'ask', source: FLOW })
  await post(operator, `${flows}/definitions/ask/versions`)
  executionId = (await post(service, '/v1/flows/ask/executions', { input: { text: SECRET } })).id
  approvalId = await eventually(async () => {
    const { body } = await call('GET', '/v1/approvals', { as: service })
    return body.data[0]?.id
  })
  functionId = (
    await post(operator, '/v1/functions', { workspace_id: workspaceId, name: 'say', source: SOURCE })
  ).id
  const invoked = await call('POST', '/v1/functions/say/invoke', {
    ...{ as: service, body: { text: SECRET }, headers: { prefer: 'respond-async' } },
  })
  runId = invoked.body.id
  await ok(call('GET', `/v1/operations/${runId}`, { as: service, headers: { prefer: 'wait=30' } }))
})

/** Routes with payloads, by those who may read them at all: the structure, and keys. */
const STRUCTURE = () => [
  `${workspace.flows}/executions/${executionId}`,
  `${workspace.flows}/executions/${executionId}/steps`,
  `${workspace.flows}/executions/${executionId}/steps/0`,
  `${workspace.flows}/approvals`,
  `${workspace.flows}/approvals/${approvalId}`,
  `/v1/functions/${functionId}/runs/${runId}`,
]
const KEYS = () => [
  `/v1/flows/executions/${executionId}`,
  `/v1/flows/executions/${executionId}/result`,
  '/v1/approvals',
  `/v1/approvals/${approvalId}`,
  `/v1/invocations/${runId}`,
  `/v1/operations/${runId}`,
]

const looksOf = async (subject: string) => {
  const { body } = await call('GET', `/v1/audit?tenant_id=${workspace.tenantId}&page[size]=200`, {
    as: workspace.operator,
  })
  return (body.data as { actor: { subject: string }; operation: string; target: string; outcome: string }[])
    .filter(({ actor, outcome }) => actor.subject === subject && outcome === 'done')
    .map(({ operation, target }) => `${operation} ${target}`)
}

describe.each(['viewer', 'developer', 'workspaceAdmin'] as const)('%s without the right', (who) => {
  test('records: without their payloads, and say so', async () => {
    for (const path of STRUCTURE()) {
      const { status, body } = await call('GET', path, { as: callers[who] })
      expect([path, status]).toEqual([path, 200])
      expect(JSON.stringify(body)).not.toContain(SECRET)
      if (!path.endsWith('/steps')) expect(JSON.stringify(body), path).toContain('"payloads":"hidden"')
    }
  })

  test('logs, and what the Temporal UI asks for: 403', async () => {
    const lines = `/v1/functions/${functionId}/runs/${runId}/logs`
    for (const path of [lines, `${lines}/stream`]) {
      const { status, body } = await call('GET', path, { as: callers[who] })
      expect([path, status, body.code]).toEqual([path, 403, 'payloads_hidden'])
    }
    const decoded = await call('POST', '/v1/codec/decode', { as: callers[who], body: { payloads: [] } })
    expect([decoded.status, decoded.body.code]).toEqual([403, 'payloads_hidden'])
  })
})

test('key that has started neither: sees no payloads, the starter does', async () => {
  for (const path of KEYS()) {
    const { status, body } = await call('GET', path, { as: callers.otherKey })
    expect([path, Math.floor(status / 100)]).toEqual([path, 2])
    expect(JSON.stringify(body), path).not.toContain(SECRET)
  }
  const lines = `/v1/invocations/${runId}/logs`
  expect((await call('GET', lines, { as: callers.otherKey })).body.code).toBe('payloads_hidden')
  for (const path of [...KEYS().filter((one) => !/approvals|result$/.test(one)), lines]) {
    const { body } = await call('GET', path, { as: workspace.service })
    expect(JSON.stringify(body), path).toContain(SECRET)
  }
})

test('reader: sees all payloads, and each request leaves one entry', async () => {
  const paths = [...STRUCTURE(), `/v1/functions/${functionId}/runs/${runId}/logs`]
  for (const path of paths) {
    const { body } = await call('GET', path, { as: callers.reader })
    if (!path.endsWith('/steps')) expect(JSON.stringify(body), path).toContain(SECRET)
  }
  const looks = await looksOf('rita')
  for (const path of paths.filter((one) => !one.endsWith('/steps')))
    expect(
      looks.filter((one) => one.endsWith(` ${path}`)),
      path,
    ).toHaveLength(1)
  expect(await looksOf('dora')).toEqual([])
})

test('events of an execution: errors without their texts for a viewer, with them for a reader', async () => {
  const read = async (as: Caller) =>
    (await call('GET', `${workspace.flows}/executions/${executionId}/events`, { as })).body
  expect(await read(callers.viewer)).not.toContain(SECRET)
  await read(callers.reader)
  expect(await looksOf('rita')).toContain(
    `execution.watch ${workspace.flows}/executions/${executionId}/events`,
  )
})

test('rerun of what another has started: shows the developer nothing of it', async () => {
  await post(workspace.operator, `${workspace.flows}/executions/${executionId}/cancel`)
  await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${executionId}`, { as: callers.viewer })
    return body.ended_at ?? undefined
  })
  const again = await post(callers.developer, `${workspace.flows}/executions/${executionId}/rerun`)
  expect(again).toMatchObject({ started_by: 'dora', payloads: 'hidden' })
  expect(JSON.stringify(again)).not.toContain(SECRET)
})
