// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The live event stream of an execution: order of steps, resumption from any event, isolation of workspaces. */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  closeSubscriptions,
  findEnd,
  messages,
  type ReceivedEvent,
  subscribeToStream,
} from '../../support/clients/sse.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let subject: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  subject = (await call('GET', '/v1/me', { as: workspace.operator })).body.subject
})
afterEach(closeSubscriptions)

/** Publishes a flow and starts it. @returns the execution's id */
async function startFlow(tasks: string, more = ''): Promise<string> {
  const name = await publishFlow(tasks, more)
  const path = `${workspace.flows}/definitions/${name}/executions`
  const run = await call('POST', path, { as: workspace.operator, body: {} })
  expect(run.status).toBe(201)
  return run.body.id
}

async function publishFlow(tasks: string, more = ''): Promise<string> {
  const name = unique('f')
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\n${more}do:\n${tasks}`
  const made = await call('POST', `${workspace.flows}/definitions`, {
    as: workspace.operator,
    body: { name, source },
  })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as: workspace.operator, body: {} })
  return name
}

const read = async (id: string) =>
  (await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })).body
const send = (id: string, command: string, body: object = {}) =>
  call('POST', `${workspace.flows}/executions/${id}/${command}`, { as: workspace.operator, body })
const watch = (id: string, after?: number) => {
  const headers = after === undefined ? {} : { 'last-event-id': String(after) }
  return subscribeToStream(workspace.operator, `${workspace.flows}/executions/${id}/events`, headers)
}

/** All frames of an execution's stream, to its end. */
async function toEnd(id: string, after?: number): Promise<ReceivedEvent[]> {
  const frames = await watch(id, after)
  await eventually(async () => findEnd(frames))
  return frames
}

/** `name status`, or the status alone for events of the execution itself. */
const lines = (frames: readonly ReceivedEvent[]) =>
  messages(frames).map(({ data: { data } }) => [data.name, data.status].filter(Boolean).join(' '))
const until = (frames: readonly ReceivedEvent[], line: string) =>
  eventually(async () => (lines(frames).includes(line) ? true : undefined))

describe('execution stream: events', () => {
  test('pure steps: numbered from 1, started before completed, OWS event names, then `end`', async () => {
    const id = await startFlow('  - a: { set: { x: 1 } }\n  - b: { if: false, set: { x: 2 } }')
    const frames = await toEnd(id)
    expect(frames[0]).toMatchObject({ event: 'ready', data: { execution: id, cursor: 0 } })
    expect(frames.at(-1)).toEqual({ id: undefined, event: 'end', data: { code: 'ended' } })
    expect(lines(frames)).toEqual(['running', 'a running', 'a completed', 'b skipped', 'completed'])
    expect(messages(frames).map((one) => one.id)).toEqual(['1', '2', '3', '4', '5'])
    const names = messages(frames).map(({ data }) => data.type.replace('io.serverlessworkflow.', ''))
    expect(names).toEqual([
      'workflow.started.v1',
      'task.started.v1',
      'task.completed.v1',
      'task.status-changed.v1',
      'workflow.completed.v1',
    ])
    expect(messages(frames)[1]?.data).toMatchObject({
      specversion: '1.0',
      id: '2',
      source: `/workspaces/${workspace.workspaceId}/executions/${id}`,
      data: {
        execution: id,
        task: '/do/0/a',
        seq: 0,
        iteration: 0,
        name: 'a',
        kind: 'set',
        status: 'running',
      },
    })
  })

  test('wait and approval: reported while they last', async () => {
    const ask = `approve: { approvers: [${subject}], fourEyes: false }`
    const id = await startFlow(`  - rest: { wait: PT0.2S }\n  - ask: { ${ask} }`)
    const frames = await watch(id)
    await until(frames, 'ask waiting')
    expect(findEnd(frames)).toBeUndefined()
    await send(id, 'approve', { approved: true })
    await eventually(async () => findEnd(frames))
    expect(lines(frames)).toEqual([
      'running',
      'rest running',
      'rest waiting',
      'waiting',
      'rest completed',
      'ask running',
      'ask waiting',
      'ask completed',
      'completed',
    ])
  })

  test('branches, loops and nested tasks: each reported within its parent, with its iteration', async () => {
    const fork = 'fork: { branches: [{ l: { set: { x: 1 } } }, { r: { set: { x: 2 } } }] }'
    const loop = 'for: { in: "${ [1, 2] }" }, do: [{ each: { set: { y: 1 } } }]'
    const id = await startFlow(`  - f: { ${fork} }\n  - all: { ${loop} }`)
    const frames = await toEnd(id)
    const reported = lines(frames)
    expect(reported.toSorted()).toEqual(
      [
        ...['f', 'l', 'r', 'all', 'each', 'each'].flatMap((name) => [`${name} running`, `${name} completed`]),
        'running',
        'completed',
      ].toSorted(),
    )
    for (const inner of ['l', 'r']) {
      expect(reported.indexOf('f running')).toBeLessThan(reported.indexOf(`${inner} running`))
      expect(reported.indexOf(`${inner} completed`)).toBeLessThan(reported.indexOf('f completed'))
    }
    const each = messages(frames).filter(({ data }) => data.data.name === 'each')
    expect(each.map(({ data }) => [data.data.iteration, data.data.status])).toEqual([
      [0, 'running'],
      [0, 'completed'],
      [1, 'running'],
      [1, 'completed'],
    ])
  })

  test('retried task: reports the attempt number and the error', async () => {
    const retry = 'retry: { delay: PT0.1S, limit: { attempt: { count: 2 } } }'
    const bad = 'raise: { error: { type: https://e.test/x, status: 500, title: No, detail: Not now. } }'
    const id = await startFlow(`  - t: { try: [{ bad: { ${bad} } }], catch: { ${retry} } }`)
    const frames = await toEnd(id)
    expect(lines(frames).filter((line) => !/^(waiting|running)$/.test(line))).toEqual([
      't running',
      ...['bad running', 'bad faulted', 't waiting', 't running'],
      ...['bad running', 'bad faulted', 't waiting', 't running'],
      ...['bad running', 'bad faulted', 't faulted', 'faulted'],
    ])
    const retried = messages(frames).filter(({ data }) => data.type.includes('task.retried'))
    expect(retried.map(({ data }) => data.data.attempt)).toEqual([2, 3])
    const error = { title: 'No', status: 500, detail: 'Not now.' }
    expect(messages(frames).at(-1)?.data.data).toMatchObject({ status: 'faulted', error })
    const [step] = (await read(id)).steps
    expect(step).toMatchObject({ name: 't', status: 'faulted', attempt: 3 })
  })

  test('held step, then skipped: reports held, suspended, skipped, completed', async () => {
    const bad = 'raise: { error: { type: https://e.test/x, status: 500, title: No } }'
    const id = await startFlow(`  - bad: { ${bad} }`, 'onFault: hold\n')
    const frames = await watch(id)
    await until(frames, 'suspended')
    await send(id, 'skip-step', { output: 1 })
    await eventually(async () => findEnd(frames))
    expect(lines(frames)).toEqual([
      ...['running', 'bad running', 'bad held', 'suspended'],
      ...['bad skipped', 'running', 'completed'],
    ])
    expect(messages(frames)[2]?.data.data.error).toMatchObject({ title: 'No' })
  })

  test('cancelled execution: reports open steps as cancelled', async () => {
    const id = await startFlow('  - rest: { wait: PT1H }')
    const frames = await watch(id)
    await until(frames, 'waiting')
    await send(id, 'cancel')
    await eventually(async () => findEnd(frames))
    expect(lines(frames).slice(-2)).toEqual(['rest cancelled', 'cancelled'])
  })

  test('subflow: has a stream of its own', async () => {
    const name = await publishFlow('  - inner: { set: { x: 1 } }')
    const id = await startFlow(
      `  - sub: { run: { workflow: { namespace: n, name: ${name}, version: '1.0.0' } } }`,
    )
    expect(lines(await toEnd(id))).toEqual([
      ...['running', 'sub running', 'sub waiting', 'waiting', 'sub completed', 'completed'],
    ])
    const { data } = (
      await call('GET', `${workspace.flows}/definitions/${name}/executions`, { as: workspace.operator })
    ).body
    expect(lines(await toEnd(data[0].id))).toEqual([
      'running',
      'inner running',
      'inner completed',
      'completed',
    ])
  })

  test('workspace suspended while an operator watches: reports suspended', async () => {
    const own = await addTestWorkspace(workspace)
    const source = `document: { dsl: '1.0.3', namespace: n, name: rest, version: '1.0.0' }\ndo: [{ r: { wait: PT1H } }]`
    await call('POST', `${own.flows}/definitions`, { as: own.operator, body: { name: 'rest', source } })
    await call('POST', `${own.flows}/definitions/rest/versions`, { as: own.operator, body: {} })
    const run = await call('POST', `${own.flows}/definitions/rest/executions`, { as: own.operator, body: {} })
    const frames = await subscribeToStream(own.operator, `${own.flows}/executions/${run.body.id}/events`)
    await until(frames, 'waiting')
    await call('POST', `/v1/workspaces/${own.workspaceId}/suspend`, { as: own.operator, body: {} })
    await until(frames, 'suspended')
    expect(messages(frames).at(-1)?.id).toBeUndefined()
    const again = await subscribeToStream(own.operator, `${own.flows}/executions/${run.body.id}/events`)
    expect(again[0]?.data.status).toBe('suspended')
  })
})

describe('execution stream: resumption', () => {
  test('resumed after each event: no event is missing or doubled', async () => {
    const id = await startFlow('  - a: { set: { x: 1 } }\n  - r: { wait: PT0.1S }\n  - b: { set: { x: 2 } }')
    const whole = messages(await toEnd(id))
    expect(whole.length).toBeGreaterThan(7)
    for (let cut = 0; cut <= whole.length; cut++) {
      const rest = await toEnd(id, cut)
      expect(rest[0]?.data.cursor).toBe(cut)
      expect(messages(rest)).toEqual(whole.slice(cut))
    }
  })

  test('reconnecting while it runs: receives every event once', async () => {
    const loop = 'for: { in: "${ [range(12)] }" }, do: [{ each: { wait: PT0.05S } }]'
    const id = await startFlow(`  - all: { ${loop} }`)
    const frames: ReceivedEvent[] = []
    const seen = () => messages(frames).length
    while (findEnd(frames) === undefined) {
      const part = await watch(id, seen())
      await eventually(async () => (messages(part).length > 2 || findEnd(part) ? true : undefined))
      closeSubscriptions()
      frames.push(...part)
    }
    expect(messages(frames).map((one) => Number(one.id))).toEqual(
      Array.from({ length: seen() }, (_, n) => n + 1),
    )
    expect(messages(frames)).toEqual(messages(await toEnd(id)))
  })

  test('cursor ahead of the stream or events deleted: reports a gap', async () => {
    const id = await startFlow('  - a: { set: { x: 1 } }')
    await toEnd(id)
    const [reported] = await toEnd(id, 999)
    expect(reported).toEqual({ id: undefined, event: 'gap', data: { after: 4 } })
    await asSuperuser('delete from tenon.execution_events where execution_id = $1 and seq < 3', [id])
    const frames = await toEnd(id)
    expect(frames.map(({ event, id: at }) => event ?? at)).toEqual(['ready', 'gap', '3', '4', 'end'])
    const malformed = await call('GET', `${workspace.flows}/executions/${id}/events`, {
      as: workspace.operator,
      headers: { 'last-event-id': '1-0' },
    })
    expect(malformed.status).toBe(200)
  })
})

describe('execution stream: access', () => {
  test('other workspace or other tenant: 404', async () => {
    const id = await startFlow('  - a: { set: { x: 1 } }')
    for (const other of [await addTestWorkspace(workspace), await createTestWorkspace()]) {
      const reply = await call('GET', `${other.flows}/executions/${id}/events`, { as: other.operator })
      expect([reply.status, reply.body.code]).toEqual([404, 'not_found'])
    }
  })

  test('operator role: reads event counts of all tenants, never contents; workspace admin reads its own events only', async () => {
    const id = await startFlow('  - a: { set: { x: 1 } }')
    await toEnd(id)
    const own = [workspace.tenantId, workspace.workspaceId]
    const seen = `select events from tenon.executions where id = '${id}'`
    expect(await sqlAsRole('tenon_operator', ['', ''], seen)).toEqual([{ events: 4 }])
    const reported = `select what from tenon.execution_events where execution_id = '${id}'`
    expect(await sqlAsRole('tenon_admin', own, reported)).toHaveLength(4)
    const sibling = await addTestWorkspace(workspace)
    for (const ref of [
      [workspace.tenantId, sibling.workspaceId],
      ['', ''],
    ])
      expect(await sqlAsRole('tenon_admin', ref, reported)).toEqual([])
    const hidden = [
      'input from tenon.executions',
      'error from tenon.executions',
      'what from tenon.execution_events',
    ]
    for (const what of hidden)
      await expect(sqlAsRole('tenon_operator', own, `select ${what}`)).rejects.toThrow(/permission denied/)
    for (const mask of ['tenon_service', 'tenon_anon'])
      await expect(sqlAsRole(mask, own, reported)).rejects.toThrow(/permission denied/)
  })

  test('twenty concurrent watchers: all receive the same events live', async () => {
    const id = await startFlow(`  - ask: { approve: { approvers: [${subject}], fourEyes: false } }`)
    const all = await Promise.all(Array.from({ length: 20 }, () => watch(id)))
    await Promise.all(all.map((frames) => until(frames, 'ask waiting')))
    await send(id, 'approve', { approved: true })
    await Promise.all(all.map((frames) => eventually(async () => findEnd(frames))))
    for (const frames of all) expect(messages(frames)).toEqual(messages(all[0] ?? []))
  })

  test('flow deleted: the events of its executions are kept', async () => {
    const name = await publishFlow('  - a: { set: { x: 1 } }')
    const path = `${workspace.flows}/definitions/${name}`
    const run = await call('POST', `${path}/executions`, { as: workspace.operator, body: {} })
    await toEnd(run.body.id)
    expect((await call('DELETE', path, { as: workspace.operator })).status).toBe(200)
    const text = 'select seq from tenon.execution_events where execution_id = $1'
    expect(await asSuperuser(text, [run.body.id])).toHaveLength(4)
  })
})
