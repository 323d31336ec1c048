/** Webhooks of other senders: their signatures and challenges, further members of the input, synchronous responses. */

import { createHmac } from 'node:crypto'
import { request } from 'node:http'
import { beforeAll, expect, inject, test } from 'vitest'
import { publishScheduled } from '../../support/fixtures/schedules.ts'
import {
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
  readonly url: string
  readonly secret: string
}

async function createWebhook(webhook: string, tasks = '  - a: { set: { seen: true } }'): Promise<Hook> {
  const published = await publishScheduled(workspace, unique('hook'), `{ webhook: ${webhook} }`, `\n${tasks}`)
  expect(published.status, JSON.stringify(published.body)).toBe(201)
  return published.body.webhooks[0]
}

const pathOf = ({ url }: Pick<Hook, 'url'>) => new URL(url).pathname + new URL(url).search
const hmac = (secret: string, text: string) => createHmac('sha256', secret).update(text).digest('hex')
const toGithub = (hook: Hook, body: string, headers: Record<string, string> = {}, path = pathOf(hook)) =>
  call('POST', path, {
    body,
    headers: { 'x-hub-signature-256': `sha256=${hmac(hook.secret, body)}`, ...headers },
  })
const byBearer = (hook: Hook, body: unknown = {}): Promise<Reply> =>
  call('POST', pathOf(hook), { body, headers: { authorization: `Bearer ${hook.secret}` } })

const execution = async (id: string) =>
  (await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })).body
const ended = (id: string) =>
  eventually(async () => {
    const found = await execution(id)
    return found.ended_at === null ? undefined : found
  })

test('GitHub signature: starts an execution; replayed with another delivery id: the same; wrong secret: 401', async () => {
  const hook = await createWebhook('{ verify: github, headers: [x-github-event] }')
  const body = JSON.stringify({ action: 'opened' })
  const sent = await toGithub(hook, body, { 'x-github-event': 'issues', 'x-github-delivery': 'a' })
  expect([sent.status, sent.body.deduplicated]).toEqual([202, false])
  expect((await ended(sent.body.execution_id)).input).toMatchObject({
    headers: { 'x-github-event': 'issues' },
    body: { action: 'opened' },
  })
  const again = await toGithub(hook, body, { 'x-github-delivery': 'b' })
  expect(again.body).toEqual({ execution_id: sent.body.execution_id, deduplicated: true })
  expect((await toGithub({ ...hook, secret: 'other' }, body)).status).toBe(401)
  // A signature of another scheme is worth nothing here.
  expect((await byBearer(hook)).status).toBe(401)
})

test('secret that the sender has issued: replaces the made one and is not shown', async () => {
  const hook = await createWebhook('{ verify: stripe }')
  const set = await call('POST', `${workspace.flows}/triggers/${hook.id}/rotate-secret`, {
    as: workspace.operator,
    body: { secret: 'whsec_of_stripe' },
  })
  expect([set.status, set.body]).toEqual([200, { id: hook.id, previous_until: expect.any(String) }])
  const seconds = Math.floor(Date.now() / 1_000)
  const body = JSON.stringify({ id: unique('evt'), type: 'invoice.paid' })
  const signature = (at: number) => `t=${at},v1=${hmac('whsec_of_stripe', `${at}.${body}`)}`
  const send = (at: number) =>
    call('POST', pathOf(hook), { body, headers: { 'stripe-signature': signature(at) } })
  const first = await send(seconds)
  expect(first.status).toBe(202)
  // Stripe signs each attempt anew.
  expect((await send(seconds + 1)).body).toEqual({ ...first.body, deduplicated: true })
  expect((await send(seconds - 400)).status).toBe(401)
})

test('Standard Webhooks: a given secret has the form of that scheme, or is refused with 400', async () => {
  const hook = await createWebhook('{}')
  const rotate = (secret: string) =>
    call('POST', `${workspace.flows}/triggers/${hook.id}/rotate-secret`, {
      as: workspace.operator,
      body: { secret },
    })
  expect((await rotate('not a secret of it')).body).toMatchObject({ code: 'validation_failed' })
  expect((await rotate(`whsec_${Buffer.alloc(32).toString('base64')}`)).status).toBe(200)
})

test('Slack challenge: signed: answered without an execution; unsigned: 401', async () => {
  const hook = await createWebhook('{ verify: slack }')
  const body = JSON.stringify({ type: 'url_verification', challenge: 'c-1' })
  const seconds = `${Math.floor(Date.now() / 1_000)}`
  const signed = {
    'x-slack-request-timestamp': seconds,
    'x-slack-signature': `v0=${hmac(hook.secret, `v0:${seconds}:${body}`)}`,
  }
  const reply = await call('POST', pathOf(hook), { body, headers: signed })
  expect([reply.status, reply.body]).toEqual([200, 'c-1'])
  expect((await call('POST', pathOf(hook), { body })).status).toBe(401)
  const executions = await call('GET', `${workspace.flows}/executions?trigger_id=${hook.id}`, {
    as: workspace.operator,
  })
  expect(executions.body.data).toEqual([])
})

test('GET with the declared challenge: echoed as plain text; any other GET: 405', async () => {
  const hook = await createWebhook('{ verify: bearer, challenge: hub.challenge }')
  const markup = '<script>alert(1)</script>'
  const reply = await call('GET', `${pathOf(hook)}?hub.challenge=${encodeURIComponent(markup)}`)
  expect([reply.status, reply.body]).toEqual([200, markup])
  expect(reply.headers.get('content-type')).toBe('text/plain; charset=utf-8')
  expect(reply.headers.get('x-content-type-options')).toBe('nosniff')
  expect((await call('GET', pathOf(hook))).status).toBe(405)
  const other = await createWebhook('{ verify: bearer }')
  expect((await call('GET', `${pathOf(other)}?hub.challenge=1`)).status).toBe(405)
})

test('secret URL: the published URL starts executions; the token is in neither input nor record', async () => {
  const hook = await createWebhook('{ verify: url, include: [query, raw] }')
  const reply = await call('POST', `${pathOf(hook)}&a=1&b=2&b=3`, { body: '{"n": 1}' })
  expect(reply.status).toBe(202)
  const run = await ended(reply.body.execution_id)
  expect(run.input).toMatchObject({ query: { a: '1', b: ['2', '3'] }, raw: '{"n": 1}', body: { n: 1 } })
  expect(JSON.stringify(run)).not.toContain(hook.secret.slice(6, 20))
  expect((await call('POST', pathOf(hook).replace(/token=.*/, 'token=x'), { body: {} })).status).toBe(401)
  const rotated = await call('POST', `${workspace.flows}/triggers/${hook.id}/rotate-secret`, {
    as: workspace.operator,
    body: {},
  })
  expect((await call('POST', pathOf(rotated.body), { body: {} })).status).toBe(202)
})

test('respond output: the sender gets the output of the execution; the record says so', async () => {
  const hook = await createWebhook(
    '{ verify: bearer, respond: output }',
    "  - a: { set: { twice: '${ .body.n * 2 }' } }",
  )
  const reply = await byBearer(hook, { n: 21 })
  expect([reply.status, reply.body]).toEqual([200, { twice: 42 }])
  expect((await execution(reply.headers.get('x-execution-id') ?? '')).trigger).toMatchObject({
    response: 'sent',
  })
})

test('respond response: status, headers and text are those of the flow, and browsers run none of it', async () => {
  const flow = (output: string) =>
    createWebhook(
      '{ verify: bearer, respond: { with: response, within: PT20S } }',
      `  - a: { set: ${output} }`,
    )
  const twiml = '<Response><Say>Hi</Say></Response>'
  const reply = await byBearer(
    await flow(`{ status: 201, headers: { Content-Type: text/xml, x-own: '1' }, body: '${twiml}' }`),
  )
  expect([reply.status, reply.body]).toEqual([201, twiml])
  expect(reply.headers.get('content-type')).toBe('text/xml')
  expect(reply.headers.get('content-security-policy')).toContain('sandbox')
  expect(reply.headers.get('x-own')).toBe('1')
  for (const output of [
    '{ status: 99 }',
    '{ status: ok }',
    "{ headers: { set-cookie: 'a=b' } }",
    '{ headers: { x-a: "a\\r\\nb" } }',
  ])
    expect((await byBearer(await flow(output))).body).toMatchObject({ status: 502, code: 'execution_failed' })
})

test('respond, execution faults: 502 with its id, without its error', async () => {
  const hook = await createWebhook(
    '{ verify: bearer, respond: output }',
    '  - a: { raise: { error: { type: https://x.test/e, status: 500, title: private } } }',
  )
  const reply = await byBearer(hook)
  expect([reply.status, reply.body.code]).toEqual([502, 'execution_failed'])
  expect(JSON.stringify(reply.body)).not.toContain('private')
  expect((await execution(reply.body.execution_id)).status).toBe('faulted')
})

test('respond, execution lasts longer: 202 with its id, and it continues', async () => {
  const hook = await createWebhook('{ verify: bearer, respond: { within: PT0.2S } }', '  - a: { wait: PT1S }')
  const reply = await byBearer(hook)
  expect([reply.status, reply.body]).toEqual([202, { execution_id: expect.any(String), deduplicated: false }])
  expect(await ended(reply.body.execution_id)).toMatchObject({
    status: 'completed',
    trigger: { response: 'timed_out' },
  })
})

test('respond, sender closes the connection: the execution continues, and the record says so', async () => {
  const hook = await createWebhook('{ verify: bearer, respond: output }', '  - a: { wait: PT1S }')
  const { port } = new URL(inject('tenon').url)
  const headers = { authorization: `Bearer ${hook.secret}`, 'content-type': 'application/json' }
  const sent = request({ port, host: '127.0.0.1', path: pathOf(hook), method: 'POST', headers })
  sent.on('error', () => {})
  sent.end('{}')
  const id = await eventually(async () => {
    const path = `${workspace.flows}/executions?trigger_id=${hook.id}`
    return (await call('GET', path, { as: workspace.operator })).body.data[0]?.id as string | undefined
  })
  sent.destroy()
  const run = await eventually(async () => {
    const found = await execution(id)
    return found.trigger.response === undefined || found.ended_at === null ? undefined : found
  })
  expect(run).toMatchObject({ status: 'completed', trigger: { response: 'sender_gone' } })
})

test('definition with mistakes: each is reported at its place', async () => {
  const faultsOf = async (webhook: string) => {
    const source = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\nschedule: { webhook: ${webhook} }\ndo: [{ a: { set: {} } }]`
    const { body } = await call('POST', `${workspace.flows}/validate`, {
      as: workspace.operator,
      body: { source },
    })
    return body.diagnostics.map(
      ({ pointer, code }: { pointer: string; code: string }) => `${code} ${pointer}`,
    )
  }
  expect(await faultsOf('{ verify: gitub }')).toEqual(['value_invalid /schedule/webhook/verify'])
  expect(await faultsOf('{ verify: { hmac: {} } }')).toEqual(['missing_key /schedule/webhook/verify/hmac'])
  expect(await faultsOf('{ verify: { hmac: { header: x-sig, algorithm: md5 } } }')).toEqual([
    'value_invalid /schedule/webhook/verify/hmac/algorithm',
  ])
  expect(await faultsOf('{ include: [body] }')).toEqual(['value_invalid /schedule/webhook/include/0'])
  expect(await faultsOf('{ respond: { within: PT1M } }')).toEqual([
    'value_invalid /schedule/webhook/respond/within',
  ])
  expect(await faultsOf("{ challenge: 'a b' }")).toEqual(['value_invalid /schedule/webhook/challenge'])
})
