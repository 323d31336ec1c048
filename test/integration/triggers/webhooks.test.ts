/** Webhooks: signatures, the input of executions, one execution per delivery. */

import { beforeAll, expect, test } from 'vitest'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import { makeSecret, sign } from '../../../src/features/runs/triggers/standard-webhooks.ts'
import { makeRetentionDue } from '../../support/fixtures/executions.ts'
import { publishScheduled } from '../../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

interface Hook {
  readonly id: string
  readonly name: string
  readonly url: string
  readonly secret: string
}

/** Publishes a flow with this schedule, or its next version. */
async function publish(
  name: string,
  schedule: string,
  at = workspace,
  tasks = '  - a: { set: { seen: true } }',
) {
  const published = await publishScheduled(at, name, schedule, `\n${tasks}`)
  expect(published.status, JSON.stringify(published.body)).toBe(201)
  return published.body as { flow_id: string; version: number; webhooks: Hook[] }
}

async function createWebhook(schedule = '{ webhook: {} }', at = workspace): Promise<Hook> {
  const [hook] = (await publish(unique('hook'), schedule, at)).webhooks
  if (hook === undefined) throw new Error('no webhook')
  return hook
}

interface Sent {
  readonly id?: string
  readonly secret?: string
  readonly seconds?: number
  readonly type?: string | undefined
  readonly headers?: Record<string, string>
}

const nowSeconds = () => Math.floor(Date.now() / 1_000)

/** Sends a delivery as a third party does, without a credential of the platform. */
function send(hook: Pick<Hook, 'url' | 'secret'>, body: unknown, sent: Sent = {}): Promise<Reply> {
  const { id = unique('msg'), secret = hook.secret, seconds = nowSeconds() } = sent
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const signed = {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': sign(secret, id, seconds, Buffer.from(text)),
  }
  return call('POST', new URL(hook.url).pathname, { body: text, headers: { ...signed, ...sent.headers } })
}

const execution = async (id: string, at = workspace) =>
  (await call('GET', `${at.flows}/executions/${id}`, { as: at.operator })).body

const ended = (id: string, at = workspace) =>
  eventually(async () => {
    const found = await execution(id, at)
    return found.ended_at === null ? undefined : found
  })

const runsOf = async (hook: Hook) =>
  asSuperuser<{ id: string }>('select id from tenon.executions where trigger_id = $1', [hook.id])

test('signed delivery: starts an execution with id, time, allowed headers and body', async () => {
  const hook = await createWebhook('{ webhook: { headers: [x-event-type, x-other] } }')
  const headers = { 'x-event-type': 'paid', 'x-unnamed': 'not shown', cookie: 'a=b', 'user-agent': 'shop/1' }
  const sent = await send(hook, { order: 1 }, { id: 'msg_1', headers })
  expect([sent.status, sent.body]).toEqual([202, { execution_id: expect.any(String), deduplicated: false }])
  expect(await ended(sent.body.execution_id)).toMatchObject({
    status: 'completed',
    trigger: { kind: 'webhook', id: hook.id },
    input: {
      id: 'msg_1',
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      headers: { 'content-type': 'application/json', 'user-agent': 'shop/1', 'x-event-type': 'paid' },
      body: { order: 1 },
    },
    output: { seen: true },
  })
  expect(JSON.stringify(await execution(sent.body.execution_id))).not.toMatch(/not shown|a=b|signature/)
})

test('delivery with a traceparent: its execution is in that trace, and has the id of the request', async () => {
  const hook = await createWebhook()
  const trace = crypto.randomUUID().replaceAll('-', '')
  const sent = await send(hook, {}, { headers: { traceparent: `00-${trace}-b7ad6b7169203331-00` } })
  expect(await execution(sent.body.execution_id)).toMatchObject({
    trace_id: trace,
    request_id: sent.headers.get('x-request-id'),
  })
})

test('body that is not JSON: passed as text', async () => {
  const hook = await createWebhook()
  const inputOf = async (body: string, type: string) => {
    const { body: answer } = await send(hook, body, { headers: { 'content-type': type } })
    return (await ended(answer.execution_id)).input.body
  }
  expect(await inputOf('a=1&b=2', 'application/x-www-form-urlencoded')).toBe('a=1&b=2')
  expect(await inputOf('{"a":1}', 'text/plain')).toBe('{"a":1}')
  expect(await inputOf('{"a":1}', 'application/cloudevents+json; charset=utf-8')).toEqual({ a: 1 })
  expect(await inputOf('[1]', 'application/json')).toEqual([1])
})

test('delivery repeated after the execution ended: same response, no new execution (T24)', async () => {
  const hook = await createWebhook()
  const first = await send(hook, { n: 1 }, { id: 'msg_replayed' })
  await ended(first.body.execution_id)
  const again = await send(hook, { n: 1 }, { id: 'msg_replayed' })
  expect([again.status, again.body]).toEqual([202, { ...first.body, deduplicated: true }])
  expect(await runsOf(hook)).toHaveLength(1)
})

test('same delivery id with another body: refused with 409', async () => {
  const hook = await createWebhook()
  await send(hook, { n: 1 }, { id: 'msg_twice' })
  const other = await send(hook, { n: 2 }, { id: 'msg_twice' })
  expect([other.status, other.body.code]).toEqual([409, 'conflict'])
  expect(await runsOf(hook)).toHaveLength(1)
})

test('a hundred concurrent copies: one execution', async () => {
  const hook = await createWebhook()
  const replies = await Promise.all(
    Array.from({ length: 100 }, () => send(hook, { n: 1 }, { id: 'msg_many' })),
  )
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([202]))
  const [id, ...others] = new Set(replies.map(({ body }) => body.execution_id))
  expect(others).toEqual([])
  expect(replies.filter(({ body }) => !body.deduplicated)).toHaveLength(1)
  expect(await runsOf(hook)).toEqual([{ id }])
  expect((await ended(id)).status).toBe('completed')
})

test('crash between delivery and start: the repeated delivery starts the recorded execution', async () => {
  const hook = await createWebhook()
  const first = await send(hook, { n: 1 }, { id: 'msg_crashed' })
  await ended(first.body.execution_id)
  const lost = typeId('run', randomIds.uuid())
  await asSuperuser('update tenon.webhook_deliveries set run_id = $1 where trigger_id = $2', [lost, hook.id])
  const again = await send(hook, { n: 1 }, { id: 'msg_crashed' })
  expect(again.body).toEqual({ execution_id: lost, deduplicated: true })
  expect((await ended(lost)).status).toBe('completed')
})

test('delivery older than the period of the workspace: forgotten, so that a repeated one starts another execution', async () => {
  const hook = await createWebhook()
  const [young, old] = ['msg_young', 'msg_old']
  await Promise.all([young, old].map((id) => send(hook, {}, { id })))
  await asSuperuser(
    `update tenon.webhook_deliveries set received_at = now() - interval '1 day' * case delivery_id when $2 then 29 else 31 end
     where trigger_id = $1`,
    [hook.id, young],
  )
  await makeRetentionDue(workspace)
  const rows = () => asSuperuser('select 1 from tenon.webhook_deliveries where trigger_id = $1', [hook.id])
  await eventually(async () => ((await rows()).length === 1 ? true : undefined))
  const isRepeated = async (id: string) => (await send(hook, {}, { id })).body.deduplicated
  expect([await isRepeated(young), await isRepeated(old)]).toEqual([true, false])
})

const INVALID = [401, 'signature_invalid']
const statusAndCode = ({ status, body }: Reply) => [status, body.code]

test('any invalid signature, address or credential: the same 401, no execution', async () => {
  const [hook, other] = [await createWebhook(), await createWebhook()]
  const foreignHook = await createWebhook('{ webhook: {} }', await createTestWorkspace())
  const sibling = await addTestWorkspace(workspace)
  const path = new URL(hook.url).pathname
  const at = (pathname: string) => ({ ...hook, url: `http://x${pathname}` })
  const attempts: Record<string, Promise<Reply>> = {
    'another secret': send(hook, {}, { secret: makeSecret() }),
    'the secret of a neighbour': send(hook, {}, { secret: other.secret }),
    'the secret of another tenant': send(hook, {}, { secret: foreignHook.secret }),
    'too old': send(hook, {}, { seconds: nowSeconds() - 310 }),
    'too far ahead': send(hook, {}, { seconds: nowSeconds() + 310 }),
    'another body': send(
      hook,
      {},
      { headers: { 'webhook-signature': sign(hook.secret, 'm', 1, Buffer.from('')) } },
    ),
    'no signature': call('POST', path, { body: {} }),
    'no body': call('POST', path),
    'unknown webhook': send(at(path.replace(/trg_.*/, 'trg_01k5zzzzzzzzzzzzzzzzzzzzzz')), {}),
    'malformed id': send(at(path.replace(/trg_.*/, 'x')), {}),
    'unknown workspace': send(at(path.replace(workspace.workspaceId, 'ws_01k5zzzzzzzzzzzzzzzzzzzzzz')), {}),
    'a sibling workspace': send(at(path.replace(workspace.workspaceId, sibling.workspaceId)), {}),
    'a foreign tenant’s path': send({ ...hook, url: foreignHook.url }, {}),
  }
  const bodies = new Set<string>()
  for (const [what, attempt] of Object.entries(attempts)) {
    const reply = await attempt
    expect([what, ...statusAndCode(reply)]).toEqual([what, ...INVALID])
    const { request_id: _id, instance: _path, ...rest } = reply.body
    bodies.add(JSON.stringify(rest))
  }
  expect(bodies.size).toBe(1)
  expect(await runsOf(hook)).toEqual([])
  // Credentials of the platform are not accepted here.
  for (const as of [workspace.operator, workspace.service])
    expect(statusAndCode(await call('POST', path, { as, body: {} }))).toEqual(INVALID)
})

test('methods other than POST: 405', async () => {
  const path = new URL((await createWebhook()).url).pathname
  for (const method of ['GET', 'PUT', 'DELETE']) expect((await call(method, path)).status).toBe(405)
})

test('rotated secret: the previous one works for a day, older ones do not', async () => {
  const hook = await createWebhook()
  const rotate = async () => {
    const path = `${workspace.flows}/triggers/${hook.id}/rotate-secret`
    return (await call('POST', path, { as: workspace.operator, body: {} })).body
  }
  const second = await rotate()
  expect(second).toMatchObject({ id: hook.id, secret: expect.stringMatching(/^whsec_/) })
  const graceMs = Date.parse(second.previous_until) - Date.now()
  expect(Math.abs(graceMs - 86_400_000)).toBeLessThan(60_000)
  expect((await send(hook, {})).status).toBe(202)
  expect((await send(hook, {}, { secret: second.secret })).status).toBe(202)
  const third = await rotate()
  expect(statusAndCode(await send(hook, {}))).toEqual(INVALID)
  expect((await send(hook, {}, { secret: second.secret })).status).toBe(202)
  await asSuperuser('update tenon.webhook_secrets set previous_until = now() where trigger_id = $1', [
    hook.id,
  ])
  expect(statusAndCode(await send(hook, {}, { secret: second.secret }))).toEqual(INVALID)
  expect((await send(hook, {}, { secret: third.secret })).status).toBe(202)
})

test('secret: shown once, kept across versions; a removed webhook stops working (T26)', async () => {
  const name = unique('kept')
  const first = await publish(name, '{ webhook: [{ name: a }, { name: b }] }')
  const [a, b] = first.webhooks as [Hook, Hook]
  expect([a.name, b.name, a.secret === b.secret]).toEqual(['a', 'b', false])
  const second = await publish(name, '{ webhook: [{ name: a }, { name: c }] }')
  expect(second.webhooks).toEqual([
    { id: a.id, name: 'a', url: a.url },
    { id: expect.any(String), name: 'c', url: expect.any(String), secret: expect.stringMatching(/^whsec_/) },
  ])
  const sent = await send(a, {})
  expect(sent.status).toBe(202)
  expect((await ended(sent.body.execution_id)).version).toBe(2)
  expect(statusAndCode(await send(b, {}))).toEqual(INVALID)
  const listed = await call('GET', `${workspace.flows}/triggers?page[size]=200`, { as: workspace.operator })
  const ours = listed.body.data.filter((one: { flow_name: string }) => one.flow_name === name)
  expect(ours).toMatchObject([
    { id: a.id, kind: 'webhook', key: 'webhook:a', version: 2, paused: false, url: a.url },
    { kind: 'webhook', key: 'webhook:c' },
  ])
  expect(JSON.stringify(listed.body)).not.toContain('whsec_')
  const rows = await asSuperuser<{ text: string }>(
    'select encode(sealed, $1) as text from tenon.webhook_secrets',
    ['escape'],
  )
  expect(JSON.stringify(rows)).not.toContain('whsec_')
})

test('flow deleted: its webhooks are deleted', async () => {
  const name = unique('gone')
  const { webhooks, flow_id } = await publish(name, '{ webhook: {} }')
  const [hook] = webhooks as [Hook]
  const sent = await send(hook, {})
  await ended(sent.body.execution_id)
  expect(
    (await call('DELETE', `${workspace.flows}/definitions/${flow_id}`, { as: workspace.operator })).status,
  ).toBe(200)
  expect(statusAndCode(await send(hook, {}))).toEqual(INVALID)
  for (const table of ['triggers', 'webhook_secrets', 'webhook_deliveries']) {
    const column = table === 'triggers' ? 'id' : 'trigger_id'
    expect(await asSuperuser(`select 1 from tenon.${table} where ${column} = $1`, [hook.id])).toEqual([])
  }
})

test('paused webhook: refused with 409; the delivery may be sent again after resume', async () => {
  const hook = await createWebhook()
  const sendCommand = (verb: string) =>
    call('POST', `${workspace.flows}/triggers/${hook.id}/${verb}`, { as: workspace.operator, body: {} })
  expect((await sendCommand('pause')).body).toMatchObject({ id: hook.id, paused: true })
  expect(statusAndCode(await send(hook, {}, { id: 'msg_early' }))).toEqual([409, 'state_conflict'])
  expect((await sendCommand('resume')).body.paused).toBe(false)
  expect((await send(hook, {}, { id: 'msg_early' })).body.deduplicated).toBe(false)
})

test('suspended workspace: refused; an invalid signature still gets the plain 401', async () => {
  const suspended = await createTestWorkspace()
  const hook = await createWebhook('{ webhook: {} }', suspended)
  const sendCommand = (verb: string) =>
    call('POST', `/v1/workspaces/${suspended.workspaceId}/${verb}`, { as: suspended.operator, body: {} })
  await sendCommand('suspend')
  await eventually(async () =>
    (await send(hook, {})).body.code === 'workspace_suspended' ? true : undefined,
  )
  expect(statusAndCode(await send(hook, {}, { secret: makeSecret() }))).toEqual(INVALID)
  await sendCommand('resume')
  await eventually(async () => ((await send(hook, {})).status === 202 ? true : undefined))
})

test('hostile body: refused, no execution', async () => {
  const hook = await createWebhook()
  const of = async (body: string, type = 'application/json') =>
    statusAndCode(await send(hook, body, { headers: { 'content-type': type } }))
  expect(await of('{"a":')).toEqual([400, 'body_invalid'])
  expect(await of('{"__proto__":{"a":1}}')).toEqual([400, 'body_invalid'])
  expect(await of(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)).toEqual([400, 'validation_failed'])
  expect(await of('"\\u0000"')).toEqual([400, 'value_invalid'])
  expect(await of('x'.repeat(4_500_000), 'text/plain')).toEqual([413, 'body_too_large'])
  expect(await of('"'.repeat(2_200_000), 'text/plain')).toEqual([413, 'body_too_large'])
  expect(await runsOf(hook)).toEqual([])
})

test("accepted delivery: runs on behalf of the version's publisher, logged in the audit log", async () => {
  const hook = await createWebhook()
  const sent = await send(hook, {})
  const found = await execution(sent.body.execution_id)
  const entries = await eventually(async () => {
    const path = `/v1/audit?tenant_id=${workspace.tenantId}&operation=webhook.receive`
    const { body } = await call('GET', path, { as: workspace.operator })
    const mine = body.data.filter((one: { target: string }) => one.target.endsWith(hook.id))
    return mine.length > 0 ? mine : undefined
  })
  expect(entries).toMatchObject([
    { outcome: 'done', status: 202, actor: { kind: 'webhook', subject: hook.id } },
  ])
  const version = await call('GET', `${workspace.flows}/definitions/${found.flow_id}/versions/1`, {
    as: workspace.operator,
  })
  const [row] = await asSuperuser<{ started_by: string }>(
    'select started_by from tenon.executions where id = $1',
    [found.id],
  )
  expect(row?.started_by).toBe(version.body.created_by)
})
