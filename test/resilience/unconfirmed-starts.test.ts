/** Starts of executions without an answer of Temporal: recorded truthfully, made once, and limits hold. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { createEntry, Executions } from '../support/fixtures/executions.ts'
import { asSuperuser, call as callAt, eventually } from '../support/fixtures/tenants.ts'
import { type SharedPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'

let own: SharedPlatform
let executions: Executions
beforeAll(async () => {
  own = await sharedPlatform()
  executions = new Executions(own.workspace, own.started.running)
}, 120_000)
afterAll(() => own?.end())

const call = (path: string, body: object = {}) =>
  callAt('POST', `${own.workspace.flows}${path}`, {
    as: own.workspace.operator,
    at: own.started.running,
    body,
  })
const start = (flow: string) => call(`/definitions/${flow}/executions`)
const ended = (id: string) =>
  eventually(async () => {
    const run = await executions.read(id)
    return run.ended_at === null ? undefined : run
  }, 60_000)
const stateOfSlot = async (id: string) =>
  (
    await asSuperuser<{ state: string }>(
      'select state from tenon.run_slots where run_id = $1',
      [id],
      own.started.running,
    )
  )[0]?.state

test('Temporal hangs: a start is pending and runs once afterwards, with its slot; a rerun gets 503', async () => {
  const [free, limited, repeated] = await Promise.all([
    executions.publish(`  - did: { ${createEntry('free', 'unconfirmed')} }`),
    executions.publish(`  - did: { ${createEntry('limited', 'unconfirmed')} }`, {
      more: 'concurrency: { limit: 1 }\n',
    }),
    executions.publish('  - did: { set: { n: 1 } }'),
  ])
  const done = await executions.start(repeated)
  await executions.ended(done)
  const ids: string[] = []
  await whileStopped(own.started, 'temporal', async () => {
    const [first, second, rerun] = await Promise.all([
      start(free),
      start(limited),
      call(`/executions/${done}/rerun`),
    ])
    for (const { status, body } of [first, second])
      expect({ status, body }).toMatchObject({ status: 201, body: { status: 'pending', error: null } })
    expect(rerun).toMatchObject({ status: 503, body: { code: 'dependency_unavailable' } })
    const [repetition = ''] = /run_\w+/.exec(rerun.body.detail) ?? []
    expect(await executions.read(repetition)).toMatchObject({ status: 'pending', rerun_of: done })
    expect(await stateOfSlot(second.body.id)).toBe('admitted')
    ids.push(first.body.id, second.body.id, repetition)
  })
  const [first, second, rerun] = await Promise.all(ids.map(ended))
  for (const run of [first, second]) expect(run).toMatchObject({ status: 'completed', error: null })
  expect(rerun.ended_at).not.toBeNull()
  expect((await executions.ledger('unconfirmed')).toSorted()).toEqual(['free', 'limited'])
}, 120_000)

test('Temporal hangs at a start with cancel_running: it is queued, and follows the running one afterwards', async () => {
  const flow = await executions.publish('  - rest: { listen: { to: { one: { with: { type: go } } } } }', {
    more: 'concurrency: { limit: 1, onLimit: cancel_running }\n',
  })
  const running = await executions.start(flow)
  await executions.shown(running, 'waiting')
  let next = ''
  await whileStopped(own.started, 'temporal', async () => {
    const { status, body } = await start(flow)
    expect({ status, body }).toMatchObject({
      status: 201,
      body: { status: 'pending', queue: { position: 1 } },
    })
    next = body.id
  })
  expect(await ended(running)).toMatchObject({ status: 'cancelled' })
  await executions.shown(next, 'waiting')
  await executions.send(next, 'cancel')
}, 120_000)

test('Temporal hangs at a call of a function tool: the error says that the function may run, and names the run', async () => {
  const { operator: as, workspaceId } = own.workspace
  const at = own.started.running
  const post = async (path: string, body: object, method = 'POST') => {
    const reply = await callAt(method, path, { as, at, body })
    expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300)
    return reply.body
  }
  const source = 'export default () => 1'
  const { id } = await post('/v1/functions', { workspace_id: workspaceId, name: 'late', source })
  const servers = `/v1/mcp/workspaces/${workspaceId}/servers`
  await post(servers, { name: 'late' })
  await post(`${servers}/late/curation`, { tools: { call_late: { enabled: true } } }, 'PUT')
  await post(`${servers}/late/publish`, {})
  let text = ''
  await whileStopped(own.started, 'temporal', async () => {
    const { content } = await post(`${servers}/late/call`, { tool: 'call_late' })
    text = content[0].text
  })
  expect(text).toMatch(
    /^dependency_unavailable: .*run_\w+: the function may run, or have run\.\nRead the run/,
  )
  const [run] = /run_\w+/.exec(text) ?? []
  const { data } = (await callAt('GET', `/v1/functions/${id}/runs`, { as, at })).body
  expect(data.map((one: { id: string }) => one.id)).toEqual([run])
}, 120_000)
