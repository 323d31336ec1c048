/** Paused and waiting executions survive worker crashes, new versions, expired credentials and rotated keys. */

import { createServer, type Server } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser, inWorkspace } from '../support/clients/browser.ts'
import { textsIn } from '../support/clients/histories.ts'
import { mailTo } from '../support/clients/mails.ts'
import { ok } from '../support/clients/mcp.ts'
import { createEntry, Executions } from '../support/fixtures/executions.ts'
import {
  asSuperuser,
  type Caller,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'
import {
  killServer,
  type OwnPlatform,
  SIGNALS_MAX,
  sharedPlatform,
  UPDATES_MAX,
} from '../support/stack/own-platform.ts'
import type { Started } from '../support/stack/start.ts'
import { withRawClient } from '../support/stack/temporal.ts'

/** Clock tolerance for expired tokens. */
const TOLERANCE_SECONDS = 30

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
let executions: Executions
let server: Server
let requestCount = 0
let echo: string
beforeAll(async () => {
  own = await sharedPlatform()
  started = own.started
  workspace = own.workspace
  executions = new Executions(workspace, started.running)
  server = createServer((_request, response) => {
    requestCount += 1
    response.setHeader('content-type', 'application/json').end('{"heard":true}')
  })
  const port = started.running.echoPorts[0] ?? 0
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  echo = `http://127.0.0.1:${port}/`
})
afterAll(async () => {
  server?.close()
  await own?.end()
})

const call = (method: string, path: string, body?: object, as: Caller = workspace.operator) =>
  own.call(method, path, { as, ...(body !== undefined && { body }) })
const goSignal = { event: { type: 'go', data: 1 } }
const running = (flow: string) =>
  `  - go: { run: { workflow: { namespace: n, name: ${flow}, version: latest } } }`
const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'

/** Kills the worker and waits for another one, whose cache is empty. */
async function replaceWorker(): Promise<void> {
  const pid = killServer(started, 'worker')
  await eventually(async () => {
    const now = started.stack.supervisor.pid('worker')
    return now !== undefined && now !== pid ? true : undefined
  })
}

test('paused execution whose worker is killed: stays paused, continues with all events after resume', async () => {
  const ledger = unique('c')
  const id = await executions.start(
    await executions.publish(`${LISTEN}\n  - a: { ${createEntry('a', ledger)} }`),
  )
  await executions.shown(id, 'waiting')
  expect((await executions.send(id, 'pause', { reason: 'Wait.' })).status).toBe(200)
  await executions.send(id, 'signal', goSignal)
  killServer(started, 'worker')
  // Only the new worker can accept the patch; it has replayed the whole history by then.
  const patched = await executions.until(id, () => started.stack.supervisor.pid('worker') !== undefined)
  expect(patched).toMatchObject({ status: 'suspended', suspended_because: 'paused', pause_reason: 'Wait.' })
  const patchData = async () => (await executions.send(id, 'patch-data', { context: { x: 1 } })).status
  let status = await patchData()
  for (let attempt = 0; status === 503 && attempt < 20; attempt++) status = await patchData()
  expect(status).toBe(200)
  expect(await executions.ledger(ledger)).toEqual([])
  await executions.send(id, 'resume')
  expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
  expect(await executions.ledger(ledger)).toEqual(['a'])
})

test('execution that received the maximum number of signals: further ones get 409, other commands still work', async () => {
  const id = await executions.start(await executions.publish(LISTEN))
  await executions.shown(id, 'waiting')
  const noise = { event: { type: 'noise' } }
  for (let sent = 0; sent < SIGNALS_MAX; sent++)
    expect((await executions.send(id, 'signal', noise)).status).toBe(202)
  expect(await executions.send(id, 'signal', goSignal)).toMatchObject({
    status: 409,
    body: { code: 'state_conflict', detail: expect.stringContaining('as many events') },
  })
  // Commands with a response are updates, not signals.
  expect(await executions.send(id, 'pause')).toMatchObject({ status: 200 })
  await executions.send(id, 'resume')
  await executions.send(id, 'cancel')
  expect(await executions.ended(id)).toMatchObject({ status: 'cancelled' })
})

test('execution that received the maximum number of commands: further ones get 409, it can be cancelled', async () => {
  const id = await executions.start(await executions.publish(LISTEN))
  await executions.shown(id, 'waiting')
  const send = (n: number) => executions.send(id, n % 2 === 0 ? 'pause' : 'resume')
  for (let sent = 0; sent < UPDATES_MAX; sent++) expect((await send(sent)).status).toBe(200)
  expect(await send(UPDATES_MAX)).toMatchObject({
    status: 409,
    body: { code: 'state_conflict', detail: expect.stringContaining('as many commands') },
  })
  await executions.send(id, 'cancel')
  expect(await executions.ended(id)).toMatchObject({ status: 'cancelled' })
})

test('new version published: running and queued executions keep theirs, new ones use the new version', async () => {
  const more = 'concurrency: { limit: 1 }\n'
  const name = await executions.publish(`${LISTEN}\n  - said: { set: { said: first } }`, { more })
  const before = await executions.start(name)
  const queued = await executions.start(name)
  await executions.shown(before, 'waiting')
  const set = (step: string) => `  - ${step}: { set: { said: ${step} } }`
  await executions.publish([set('early'), LISTEN, set('said'), set('late')].join('\n'), { name })
  await replaceWorker()
  const after = await executions.start(name)
  expect((await executions.read(queued)).status).toBe('pending')
  for (const id of [before, queued, after]) {
    await executions.shown(id, 'waiting')
    expect((await executions.send(id, 'signal', goSignal)).status).toBe(202)
  }
  const ends = await Promise.all([before, queued, after].map((id) => executions.ended(id)))
  const first = ['completed', 1, { said: 'first' }, ['heard', 'said']]
  const second = ['completed', 2, { said: 'late' }, ['early', 'heard', 'said', 'late']]
  const names = ({ steps }: { steps: { name: string }[] }) => steps.map((step) => step.name)
  expect(ends.map((run) => [run.status, run.version, run.output, names(run)])).toEqual([first, first, second])
})

test('approval link of a sub-flow of a sub-flow, after a new version and a restart of API and worker: the execution goes on in its version, takes one decision and repeats no step', async () => {
  const [title, ledger, email] = [unique('Pay'), unique('c'), `${unique('ext')}@example.test`]
  const name = await executions.publish(`  - a: { ${createEntry('a', ledger)} }
  - board: { approve: { title: ${title}, approvers: ['${email}'] } }
  - b: { ${createEntry('b', ledger)} }`)
  const middle = await executions.publish(running(name))
  const top = await executions.start(await executions.publish(running(middle)))
  const { link } = await mailTo(email, title, started.running)
  await executions.publish(`  - other: { ${createEntry('other', ledger)} }`, { name })
  await started.stack.supervisor.restart('api')
  await replaceWorker()
  const browser = new Browser('nowhere:')
  const page = await browser.open(link)
  // Until the new worker serves, the page asks to repeat the decision.
  const approved = await eventually(async () => {
    const answer = await browser.submit(page, { action: 'approve' })
    return answer.status === 503 ? undefined : answer
  })
  const answers = [approved, await browser.submit(page, { action: 'reject' })]
  expect(answers.map(({ status }) => status)).toEqual([200, 409])
  expect((await executions.ended(top)).status).toBe('completed')
  for (const flow of [middle, name]) {
    const { data } = await ok(call('GET', `${workspace.flows}/definitions/${flow}/executions`))
    expect(data).toEqual([expect.objectContaining({ status: 'completed', version: 1 })])
  }
  expect(await executions.ledger(ledger)).toEqual(['a', 'b'])
  expect((await browser.open(link)).html).toContain('Approved by')
})

/** Ids of the keys that encrypt payloads in an execution's history. */
const keysOf = (workflowId: string) =>
  withRawClient(async (client) => {
    const texts = textsIn(await client.workflow.getHandle(workflowId).fetchHistory())
    return [...new Set(texts.filter((text) => /^ten_\w+\.\d+$/.test(text)))].sort()
  }, started.running)

/** Creates a machine client of this workspace that may start executions. */
async function createMachineClient(): Promise<{ id: string; token: (seconds: number) => Promise<Caller> }> {
  const body = { kind: 'machine', name: 'starter', role: 'workspace_admin', ...inWorkspace(workspace) }
  const { client_id: id } = await ok(call('POST', '/v1/oauth-clients', body))
  const token = (seconds: number) => {
    const exp = Math.floor(Date.now() / 1_000) - TOLERANCE_SECONDS + seconds
    const claims = { sub: id, client_id: id, roles: ['workspace_admin'], exp, ...inWorkspace(workspace) }
    return tokenOf(claims, { at: started.running })
  }
  return { id, token }
}

/** Waits until requests of the caller are refused with `code`. */
const untilRefusedWith = (as: Caller, code: string, path: string) =>
  eventually(async () => ((await call('GET', path, undefined, as)).body.code === code ? true : undefined))

test('starting credential deleted and payload key rotated: waiting executions hear, call, write and complete', async () => {
  const ledger = unique('c')
  const rest = `${LISTEN}
  - got: { call: http, with: { method: post, endpoint: '${echo}' } }
  - note: { ${createEntry('a', ledger)} }
  - both: { set: { had: '\${ $workflow.input }' } }`
  const flow = await executions.publish(rest)
  const topic = unique('t')
  const triggered = await executions.publish(rest, {
    more: `schedule: { on: { one: { with: { type: ${topic} } } } }\n`,
  })
  const client = await createMachineClient()
  const [brief, lasting] = await Promise.all([client.token(6), client.token(3_600)])
  const ids = [
    await executions.start(flow, { input: { x: 1 } }, brief),
    await executions.start(flow, { input: { x: 2 } }, lasting),
  ]
  const event = await call('POST', '/v1/events/publish', { topic, data: 1 }, workspace.service)
  expect(event.status).toBe(202)
  const third = await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/definitions/${triggered}/executions`)
    return body.data[0]?.id as string | undefined
  })
  const all = [...ids, third]
  const waiting = await Promise.all(all.map((id) => executions.shown(id, 'waiting')))
  expect(waiting.slice(0, 2).map(({ started_by }) => started_by)).toEqual([client.id, client.id])

  await ok(call('DELETE', `/v1/oauth-clients/${client.id}`))
  const { data } = await ok(call('GET', `/v1/api-keys?workspace_id=${workspace.workspaceId}`))
  for (const { id, kind } of data) if (kind === 'service') await ok(call('DELETE', `/v1/api-keys/${id}`))
  await untilRefusedWith(brief, 'token_expired', `${workspace.flows}/executions`)
  await untilRefusedWith(lasting, 'token_invalid', `${workspace.flows}/executions`)
  await untilRefusedWith(workspace.service, 'api_key_revoked', '/v1/collections/x/documents')
  await asSuperuser(
    "update tenon.payload_keys set created_at = now() - interval '91 days' where tenant_id = $1",
    [workspace.tenantId],
    started.running,
  )
  await replaceWorker()

  for (const id of all) expect((await executions.send(id, 'signal', goSignal)).status).toBe(202)
  const done = await Promise.all(all.map((id) => executions.ended(id)))
  expect(done.map(({ status, error, output }) => [status, error, output])).toEqual(
    waiting.map(({ input }) => ['completed', null, { had: input }]),
  )
  // The record keeps the original starter.
  expect(done.map(({ started_by }) => started_by)).toEqual(waiting.map(({ started_by }) => started_by))
  // A request with a safe method may be sent again, so only others can be counted.
  expect(requestCount).toBe(3)
  const [kept] = await asSuperuser<{ n: number }>(
    'select count(*)::int as n from tenon.documents where workspace_id = $1 and collection = $2',
    [workspace.workspaceId, ledger],
    started.running,
  )
  expect(kept?.n).toBe(3)
  for (const { workflow_id } of done)
    expect(await keysOf(workflow_id)).toEqual([`${workspace.tenantId}.1`, `${workspace.tenantId}.2`])
})
