// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The right to see payloads: what is left out or refused without it, on every route, and the audit entry of each look with it. */

import { beforeAll, describe, expect, test } from 'vitest'
import { ok } from '../support/clients/mcp.ts'
import { endOf, subscribeToStream } from '../support/clients/sse.ts'
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

const FAILING = `export default async (input, { log }) => { log.info(input.text); throw new Error(input.text) }`

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

test('simulation with the answers of what another has started: 403, and for a reader an entry', async () => {
  const path = `${workspace.flows}/simulate`
  const body = { source: FLOW, mocks_from: executionId }
  const hidden = await call('POST', path, { as: callers.developer, body })
  expect([hidden.status, hidden.body.code]).toEqual([403, 'payloads_hidden'])
  const developerReads = await tokenOf({
    ...{ sub: 'rhea', roles: ['developer', 'payload_reader'] },
    ...{ tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId },
  })
  const shown = await ok(call('POST', path, { as: developerReads, body }))
  expect(JSON.stringify(shown)).toContain(SECRET)
  expect(await looksOf('rhea')).toEqual([`flow.simulate ${path}`])
})

test('dead letter of another, run again: shows the developer nothing of it', async () => {
  const body = { workspace_id: workspace.workspaceId, name: 'fail', source: FAILING }
  const { id } = await post(workspace.operator, '/v1/functions', body)
  const invoked = await call('POST', '/v1/functions/fail/invoke', {
    ...{ as: workspace.service, body: { text: SECRET }, headers: { prefer: 'respond-async' } },
  })
  const runs = `/v1/functions/${id}/runs`
  const ended = (run: string) =>
    eventually(async () => {
      const reply = await call('GET', `${runs}/${run}`, { as: callers.developer })
      return reply.body.ended_at === null ? undefined : reply.body
    })
  expect(await ended(invoked.body.id)).toMatchObject({ dead_letter: true })
  const again = await ok(call('POST', `${runs}/${invoked.body.id}/redrive`, { as: callers.developer }))
  const run = await ended(again.id)
  expect(run).toMatchObject({ started_by: 'dora', payloads: 'hidden' })
  expect(JSON.stringify(run)).not.toContain(SECRET)
  for (const path of [`${runs}/${again.id}/logs`, `${runs}/${again.id}/logs/stream`]) {
    const { status, body: problem } = await call('GET', path, { as: callers.developer })
    expect([path, status, problem.code]).toEqual([path, 403, 'payloads_hidden'])
  }
})

test('sub-flow of a rerun: has data of what another has started, and shows the developer none', async () => {
  const { operator, flows, service } = workspace
  const child = `document: { dsl: '1.0.3', namespace: n, name: below, version: '1.0.0' }
do: [{ keep: { set: { kept: '\${ .text }' } } }]`
  const parent = `document: { dsl: '1.0.3', namespace: n, name: above, version: '1.0.0' }
do: [{ below: { run: { workflow: { namespace: n, name: below, version: '1.0.0', input: '\${ . }' } } } }]`
  for (const [name, source] of Object.entries({ below: child, above: parent })) {
    await post(operator, `${flows}/definitions`, { name, source })
    await post(operator, `${flows}/definitions/${name}/versions`)
  }
  const started = await call('POST', '/v1/flows/above/executions', {
    ...{ as: service, body: { input: { text: SECRET } }, headers: { prefer: 'wait=30' } },
  })
  expect(started.body.status).toBe('completed')
  const { id } = await post(callers.developer, `${flows}/executions/${started.body.id}/rerun`)
  const below = await eventually(async () => {
    const { body } = await call('GET', `${flows}/executions`, { as: callers.developer })
    return (body.data as { id: string; trigger: { id: string }; ended_at: string | null }[]).find(
      (one) => one.trigger.id === id && one.ended_at !== null,
    )
  })
  const { body } = await call('GET', `${flows}/executions/${below.id}`, { as: callers.developer })
  expect(body).toMatchObject({ started_by: 'dora', rerun_of: started.body.id, payloads: 'hidden' })
  expect(JSON.stringify(body)).not.toContain(SECRET)
})

describe('function that declares the scope payloads:read', () => {
  const source = 'export default ({ id }, { tenon }) => tenon.flows.get(id)'
  const deployment = (name: string) => ({
    ...{ workspace_id: workspace.workspaceId, name, source },
    config: { scopes: ['flows:read', 'payloads:read'] },
  })

  test('a developer without the right: neither declares it, nor replaces the code that has it', async () => {
    const { developer } = callers
    const refused = async (method: string, path: string, body: object) => {
      const reply = await call(method, path, { as: developer, body })
      expect([method, path, reply.status, reply.body.code]).toEqual([method, path, 403, 'forbidden'])
    }
    await refused('POST', '/v1/functions', deployment('look'))
    const { id } = await post(workspace.operator, '/v1/functions', deployment('look'))
    await refused('POST', '/v1/functions', { workspace_id: workspace.workspaceId, name: 'look', source })
    await refused('POST', `/v1/functions/${id}/versions/1/activate`, {})
    await refused('PUT', `/v1/functions/${id}/aliases/live`, { version: 1 })
    const plain = await post(developer, '/v1/functions', {
      ...{ workspace_id: workspace.workspaceId, name: 'plain', source },
    })
    await refused('PUT', `/v1/functions/${plain.id}/config`, { scopes: ['payloads:read'] })
  })

  test('what its code is shown: an entry', async () => {
    const look = { as: callers.otherKey, body: { id: executionId } }
    const { body } = await call('POST', '/v1/functions/look/invoke', look)
    expect(JSON.stringify(body)).toContain(SECRET)
    const { body: audit } = await call(
      'GET',
      `/v1/audit?tenant_id=${workspace.tenantId}&operation=flow.get_execution&page[size]=200`,
      { as: workspace.operator },
    )
    expect(JSON.stringify(audit.data)).toContain(executionId)
  })
})

test('key that was made by rotation: sees what the keys before it have started if the one who rotated sees payloads', async () => {
  const { operator, workspaceId, flows } = workspace
  const key = { workspace_id: workspaceId, kind: 'service', name: 'line' }
  const first = await post(operator, '/v1/api-keys', key)
  const { id } = await post({ apikey: first.key }, '/v1/flows/ask/executions', { input: { text: SECRET } })
  const second = await post(operator, `/v1/api-keys/${first.id}/rotate`)
  const third = await post(operator, `/v1/api-keys/${second.id}/rotate`)
  for (const { key: apikey } of [second, third]) {
    const { body } = await call('GET', `/v1/flows/executions/${id}`, { as: { apikey } })
    expect(JSON.stringify(body)).toContain(SECRET)
  }
  const without = await post(callers.workspaceAdmin, `/v1/api-keys/${third.id}/rotate`)
  const behind = await post(operator, `/v1/api-keys/${without.id}/rotate`)
  for (const as of [callers.otherKey, { apikey: without.key }, { apikey: behind.key }]) {
    const { body } = await call('GET', `/v1/flows/executions/${id}`, { as })
    expect(JSON.stringify(body)).not.toContain(SECRET)
  }
  await post(operator, `${flows}/executions/${id}/cancel`)
})

test('stream and key whose scope payloads:read is taken away: the stream ends', async () => {
  const { operator, workspaceId, service, flows } = workspace
  const scopes = ['flows:read', 'payloads:read']
  const key = await post(operator, '/v1/api-keys', {
    ...{ workspace_id: workspaceId, kind: 'service', name: 'looks', scopes },
  })
  const { id } = await post(service, '/v1/flows/ask/executions', { input: { text: SECRET } })
  const path = `/v1/flows/executions/${id}/events`
  const received = await subscribeToStream({ apikey: key.key }, path)
  await ok(call('PATCH', `/v1/api-keys/${key.id}`, { as: operator, body: { scopes: ['flows:read'] } }))
  expect(await endOf(received)).toBe('payloads_hidden')
  await post(operator, `${flows}/executions/${id}/cancel`)
})

test('idempotent request that has shown payloads: its replay has an entry, and is refused without the right', async () => {
  const { operator, workspaceId, service, flows } = workspace
  const started = await call('POST', '/v1/flows/ask/executions', {
    ...{ as: service, body: { input: { text: SECRET } } },
  })
  const { id } = started.body
  await post(operator, `${flows}/executions/${id}/cancel`)
  await eventually(async () => {
    const { body } = await call('GET', `${flows}/executions/${id}`, { as: callers.viewer })
    return body.ended_at ?? undefined
  })
  const path = `${flows}/executions/${id}/rerun`
  const place = { tenant_id: workspace.tenantId, workspace_id: workspaceId }
  const headers = { 'idempotency-key': unique('again') }
  const rerun = async (...roles: string[]) => {
    const as = await tokenOf({ sub: 'rosa', roles: ['developer', ...roles], ...place })
    return call('POST', path, { as, headers, body: {} })
  }
  const first = await rerun('payload_reader')
  expect(JSON.stringify(first.body)).toContain(SECRET)
  const again = await rerun('payload_reader')
  expect(again.body).toEqual(first.body)
  expect(await looksOf('rosa')).toEqual(Array.from({ length: 2 }, () => `execution.rerun ${path}`))
  const refused = await rerun()
  expect([refused.status, refused.body.code]).toEqual([403, 'payloads_hidden'])
})

test('steps of an execution that she has started: shown to the developer, and no look', async () => {
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  const runa = await tokenOf({ sub: 'runa', roles: ['developer', 'payload_reader'], ...place })
  const plain = await tokenOf({ sub: 'runa', roles: ['developer'], ...place })
  const { id } = await post(runa, `${workspace.flows}/definitions/ask/executions`, {
    input: { text: SECRET },
  })
  const step = await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}/steps/0`, { as: runa })
    return body.status === 'completed' ? body : undefined
  })
  expect(JSON.stringify(step)).toContain(SECRET)
  const { body } = await call('GET', `${workspace.flows}/executions/${id}/steps/0`, { as: plain })
  expect(body).toEqual(step)
  await ok(call('GET', `${workspace.flows}/executions/${id}/steps`, { as: runa }))
  expect((await looksOf('runa')).filter((one) => /step/.test(one))).toEqual([])
  await post(workspace.operator, `${workspace.flows}/executions/${id}/cancel`)
})

test('approver without the right: sees what the approval is about, and the look has an entry', async () => {
  const { tenantId, flows, service, operator } = workspace
  const approver = await tokenOf({ sub: 'ada', roles: ['tenant_admin'], tenant_id: tenantId })
  const { id } = await post(service, '/v1/flows/ask/executions', { input: { text: SECRET } })
  const approval = await eventually(async () => {
    const { body } = await call('GET', `${flows}/executions/${id}`, { as: callers.viewer })
    return body.approvals?.[0]
  })
  const path = `${flows}/approvals/${approval.id}`
  const { body } = await call('GET', path, { as: approver })
  expect(JSON.stringify(body)).toContain(SECRET)
  expect(await looksOf('ada')).toEqual([`approval.get ${path}`])
  await post(operator, `${flows}/executions/${id}/cancel`)
})

test('export of a person by a key: payloads, titles and comments of approvals only with the scope', async () => {
  const { operator, flows, service, workspaceId } = workspace
  await ok(
    call('POST', '/v1/services/configure', {
      ...{ as: operator, body: { workspace_id: workspaceId, auth: { sign_up: 'invite' } } },
    }),
  )
  const person = await post(operator, '/v1/users', {
    workspace_id: workspaceId,
    email: `${unique('person')}@example.test`,
  })
  const source = FLOW.replace("'role:tenant_admin'", `'${person.id}'`)
    .replace("'Pay?'", "'${ .kept }'")
    .replace('name: ask', 'name: person')
  await post(operator, `${flows}/definitions`, { name: 'person', source })
  await post(operator, `${flows}/definitions/person/versions`)
  const { id } = await post(service, '/v1/flows/person/executions', { input: { text: SECRET } })
  await eventually(async () => {
    const { body } = await call('GET', `${flows}/executions/${id}`, { as: callers.viewer })
    return body.approvals?.[0]
  })
  const { key } = await post(operator, '/v1/api-keys', {
    ...{ workspace_id: workspaceId, kind: 'service', name: 'exports' },
    scopes: ['collections:read', 'objects:read', 'flows:read', 'functions:read', 'payloads:read'],
  })
  const read = async (as: Caller) => String((await call('GET', `/v1/users/${person.id}/export`, { as })).body)
  const [hidden, shown] = [await read(callers.otherKey), await read({ apikey: key })]
  expect(hidden).toContain('"type":"approval"')
  expect(hidden).toContain('"payloads":"hidden"')
  expect(hidden).not.toContain(SECRET)
  expect(shown).toContain(SECRET)
  await post(operator, `${flows}/executions/${id}/cancel`)
})

test('log of a run as a stream: an entry for a reader', async () => {
  const { tenantId, workspaceId } = workspace
  const place = { tenant_id: tenantId, workspace_id: workspaceId }
  const as = await tokenOf({ sub: 'lena', roles: ['viewer', 'payload_reader'], ...place })
  const path = `/v1/functions/${functionId}/runs/${runId}/logs/stream`
  const received = await subscribeToStream(as, path)
  await eventually(async () => (JSON.stringify(received).includes(SECRET) ? true : undefined))
  expect(await looksOf('lena')).toEqual([`function_run.watch_logs ${path}`])
})

test('archive of an export: refused to an admin without the right, who may export; with it, each download has one entry', async () => {
  const { tenantId, workspaceId } = workspace
  const admin = (sub: string, ...roles: string[]) =>
    tokenOf({ sub, roles: ['tenant_admin', ...roles], tenant_id: tenantId })
  const [blind, seeing] = [await admin('adam'), await admin('sara', 'payload_reader')]
  const { id } = await ok(call('POST', `/v1/workspaces/${workspaceId}/exports`, { as: blind }))
  await eventually(async () => {
    const { body } = await call('GET', `/v1/operations/${id}`, { as: blind })
    return body.state === 'succeeded' ? true : undefined
  })
  const path = `/v1/tenants/${tenantId}/archives/${id}`
  for (const headers of [{}, { range: 'bytes=10-' }]) {
    const refused = await call('GET', path, { as: blind, headers })
    expect([refused.status, refused.body.code]).toEqual([403, 'payloads_hidden'])
  }
  expect(await looksOf('adam')).toEqual([expect.stringContaining('workspace.export')])
  expect((await call('GET', path, { as: seeing })).status).toBe(200)
  expect(await looksOf('sara')).toEqual([`operation.get_archive ${path}`])
  expect((await call('GET', path, { as: seeing, headers: { range: 'bytes=10-' } })).status).toBe(206)
  expect(await looksOf('sara')).toHaveLength(2)
})
