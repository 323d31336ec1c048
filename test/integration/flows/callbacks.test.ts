// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Calls that await a callback: a one-time URL without other credentials, whose JSON body is the output of the task. */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import { call, createTestWorkspace, eventually, type Reply, unique } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

let runner: FlowRunner
let fakeServers: FakeServers
beforeAll(async () => {
  runner = new FlowRunner(await createTestWorkspace(), inject('tenon'))
  fakeServers = await FakeServers.open({
    '/jobs': () => ({ json: { accepted: true } }),
    '/broken': () => ({ status: 500 }),
  })
  await allowLoopback(runner.workspace, fakeServers)
})
afterAll(() => fakeServers.close())

/** Starts a flow that calls a path and awaits its callback. @returns the execution, and the path and query of the URL */
async function begin(path: string, { timeout = 'P1D', more = '' } = {}) {
  const name = unique('calls')
  const key = unique('k')
  await runner.publish(
    name,
    `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }
do:
  - ask:
      call: http
      with: { method: post, endpoint: '${fakeServers.origin}${path}/${key}', body: { reply_to: '\${ $callback.url }' } }
      awaitCallback: { timeout: ${timeout} }
${more}`,
  )
  const { id } = await runner.start(name, {})
  const request = await eventually(async () => fakeServers.requestsTo(`${path}/${key}`)[0])
  const { pathname, search } = new URL(JSON.parse(request.body).reply_to)
  return { id, url: `${pathname}${search}` }
}

const post = (url: string, body: unknown): Promise<Reply> => call('POST', url, { body })
const waiting = (id: string) =>
  eventually(async () => {
    const { body } = await runner.call('GET', `${runner.workspace.flows}/executions/${id}`)
    return body.status === 'waiting' ? true : undefined
  })

test('callback: its body is the output of the task; a second one is refused', async () => {
  const { id, url } = await begin('/jobs', { more: "  - last: { set: { got: '${ .n }' } }" })
  await waiting(id)
  expect((await post(url, { n: 7 })).status).toBe(202)
  expect((await runner.ended(id)).output).toEqual({ got: 7 })
  expect(await post(url, { n: 7 })).toMatchObject({ status: 409, body: { code: 'state_conflict' } })
})

test('callbacks at the same time, with other bodies: one is taken', async () => {
  const { id, url } = await begin('/jobs')
  const replies = await Promise.all([1, 2, 3, 4, 5].map((n) => post(url, { n })))
  expect(replies.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409, 409])
  const acceptedReply = replies.findIndex(({ status }) => status === 202) + 1
  expect((await runner.ended(id)).output).toEqual({ n: acceptedReply })
})

test('forged URL, other workspace, wrong method: is refused, and the callback stays open', async () => {
  const { id, url } = await begin('/jobs')
  const other = await createTestWorkspace()
  const forged = [
    url.replace(/token=.*/, 'token=x'),
    url.replace(/\?.*/, ''),
    url.replace(/callbacks\/[^?]+/, 'callbacks/0198c0de-0000-7000-8000-000000000000'),
    url.replace(/callbacks\/[^?]+/, 'callbacks/x'),
    url.replace(runner.workspace.workspaceId, other.workspaceId),
    `${url}&token=y`,
  ]
  for (const one of forged)
    expect(await post(one, {}), one).toMatchObject({ status: 404, body: { code: 'not_found' } })
  expect((await call('GET', url)).status).toBe(405)
  expect((await post(url, { text: 'x'.repeat(600_000) })).status).toBe(413)
  expect((await post(url, null)).status).toBe(202)
  expect((await runner.ended(id)).output).toBeNull()
})

test('callback that does not come in time: the task faults, and a late one is 410', async () => {
  const { id, url } = await begin('/jobs', { timeout: 'PT0.5S' })
  expect(await runner.ended(id)).toMatchObject({
    status: 'faulted',
    error: { status: 408, instance: '/do/0/ask' },
  })
  expect(await post(url, {})).toMatchObject({ status: 410, body: { code: 'callback_expired' } })
})

test('call that fails, or execution that was cancelled: its URL is 410', async () => {
  const failed = await begin('/broken')
  expect((await runner.ended(failed.id)).status).toBe('faulted')
  const cancelled = await begin('/jobs')
  await waiting(cancelled.id)
  await runner.call('POST', `${runner.workspace.flows}/executions/${cancelled.id}/cancel`, {})
  await runner.ended(cancelled.id)
  for (const { url } of [failed, cancelled]) expect((await post(url, {})).status).toBe(410)
})

test('callback URL that the arguments of the call have percent-encoded: the record has no token', async () => {
  const name = unique('calls')
  const endpoint = `${fakeServers.origin}/jobs/${name}`
  await runner.publish(
    name,
    `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }
do:
  - ask:
      call: http
      with: { method: post, endpoint: '${endpoint}', body: { link: '\${ "https://x.example/?to=" + ($callback.url | @uri) }' } }
      awaitCallback: { timeout: PT1M }`,
  )
  const { id } = await runner.start(name, {})
  const sent = await eventually(async () => fakeServers.requestsTo(`/jobs/${name}`)[0])
  const { link } = JSON.parse(sent.body)
  expect(link).toContain('%3Ftoken%3D')
  const { pathname, search, searchParams } = new URL(new URL(link).searchParams.get('to') ?? '')
  await waiting(id)
  expect((await post(`${pathname}${search}`, {})).status).toBe(202)
  await runner.ended(id)
  const step = await runner.call('GET', `${runner.workspace.flows}/executions/${id}/steps/0`)
  expect(step).toMatchObject({ status: 200, body: { arguments: expect.anything() } })
  const record = JSON.stringify(step.body)
  expect(record).toContain('token%3D')
  expect(record).not.toContain(searchParams.get('token'))
})

test('callback before the call has returned: is kept', async () => {
  const late = await FakeServers.open({ '/slow': () => ({ json: {}, lateMs: 1_500 }) })
  try {
    await allowLoopback(runner.workspace, late)
    const name = unique('early')
    await runner.publish(
      name,
      `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }
do:
  - ask:
      call: http
      with: { method: post, endpoint: '${late.origin}/slow', body: { reply_to: '\${ $callback.url }' } }
      awaitCallback: { timeout: PT1M }`,
    )
    const { id } = await runner.start(name, {})
    const request = await eventually(async () => late.requestsTo('/slow')[0])
    const { pathname, search } = new URL(JSON.parse(request.body).reply_to)
    expect((await post(`${pathname}${search}`, { early: true })).status).toBe(202)
    expect((await runner.ended(id)).output).toEqual({ early: true })
  } finally {
    await late.close()
    await allowLoopback(runner.workspace, fakeServers)
  }
})
