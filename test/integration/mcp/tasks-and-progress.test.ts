/** Long calls: progress of flows, and executions as tasks of their starter. */

import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { beforeAll, describe, expect, test } from 'vitest'
import { withLegacyClient } from '../../support/clients/mcp.ts'
import { modernRpc } from '../../support/clients/mcp-modern.ts'
import {
  AS_TASKS,
  type AskingServer,
  accept,
  createAskingServer,
  FORM,
  signIn,
  task,
  use,
} from '../../support/fixtures/asking-server.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

let at: AskingServer

beforeAll(async () => {
  at = await createAskingServer()
})

test('progress: one notification for each step that begins; log messages at the level of the request; else none', async () => {
  const [{ notifications, message }, logged, silent] = await Promise.all([
    use(at, 'run_steps', {}, { progressToken: 'p1' }),
    use(at, 'run_steps', {}, { logLevel: 'info' }),
    use(at, 'run_steps', {}, { logLevel: 'error' }),
  ])
  expect(logged.notifications).toContainEqual(
    expect.objectContaining({
      method: 'notifications/message',
      params: { level: 'info', logger: 'run_steps', data: { step: 'two' } },
    }),
  )
  const reports = notifications.map(({ method, params }) => ({ method, ...params }))
  expect(reports.map(({ message: step }) => step)).toEqual(expect.arrayContaining(['two', 'three']))
  for (const [index, report] of reports.entries()) {
    expect(report).toMatchObject({ method: 'notifications/progress', progressToken: 'p1' })
    if (index > 0) expect(report.progress).toBeGreaterThan(reports[index - 1]?.progress)
  }
  expect(message['result'].structuredContent).toMatchObject({ status: 'completed' })
  expect(silent.notifications).toEqual([])
})

test('versions up to 2025-11-25: progress, and log messages at the level that the client has set', async () => {
  const heard: number[] = []
  const steps: unknown[] = []
  const call = { name: 'run_steps', arguments: {} }
  await withLegacyClient(at.server.url, at.agent, async (client) => {
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void steps.push(params))
    await client.setLoggingLevel('info')
    await client.callTool(call, undefined, { onprogress: ({ progress }) => heard.push(progress) })
    expect(steps).toContainEqual({ level: 'info', logger: 'run_steps', data: { step: 'two' } })
    const logged = steps.length
    await client.setLoggingLevel('error')
    await client.callTool(call)
    expect(steps).toHaveLength(logged)
  })
  expect(heard).toEqual([...heard].sort((a, b) => a - b))
  expect(heard.length).toBeGreaterThan(1)
})

describe('tasks (T35)', () => {
  test('an execution that goes on is a task of its starter alone; cancelled once, acknowledged twice (T35)', async () => {
    const started = (await use(at, 'run_sleep', {}, AS_TASKS)).message['result']
    expect(started).toMatchObject({
      resultType: 'task',
      status: 'working',
      ttlMs: null,
      pollIntervalMs: 1_000,
    })
    const { taskId } = started
    expect((await task(at, 'get', { taskId }))['result']).toMatchObject({ taskId, status: 'working' })
    const unknown = await task(at, 'get', { taskId: 'run_00000000000000000000000000' }, at.other)
    for (const [method, params] of [
      ['get', {}],
      ['update', { inputResponses: {} }],
      ['cancel', {}],
    ] as const)
      expect((await task(at, method, { taskId, ...params }, at.other))['error']).toEqual(unknown['error'])
    expect(unknown['error']).toMatchObject({ code: -32_602 })
    const limited = await signIn(at.server, at.client, ['call_greet'])
    expect((await task(at, 'get', { taskId }, limited))['error']).toEqual(unknown['error'])
    for (const _ of [1, 2])
      expect((await task(at, 'cancel', { taskId }))['result']).toEqual({
        resultType: 'complete',
        _meta: expect.anything(),
      })
    const ended = await eventually(async () => {
      const { result } = await task(at, 'get', { taskId })
      return result.status === 'cancelled' ? result : undefined
    })
    expect(ended.result).toBeUndefined()
  })

  test('a flow that fails is a completed task whose result says so; one that asks is answered with tasks/update', async () => {
    const [failing, paying] = await Promise.all([
      use(at, 'run_fail', {}, AS_TASKS),
      use(at, 'run_pay', {}, AS_TASKS),
    ])
    const { taskId } = paying.message['result']
    const waiting = await eventually(async () => {
      const { result } = await task(at, 'get', { taskId })
      return result.status === 'input_required' ? result : undefined
    })
    const [approval = ''] = Object.keys(waiting.inputRequests)
    const update = (content: object) =>
      task(at, 'update', { taskId, inputResponses: { [approval]: accept(content) } })
    await update({ _approved: true })
    expect((await task(at, 'get', { taskId }))['result'].status).toBe('input_required')
    await update({ _approved: true, reason: 'agreed' })
    await update({ _approved: false, reason: 'too late' })
    const ended = async (id: string) =>
      eventually(async () => {
        const { result } = await task(at, 'get', { taskId: id })
        return result.status === 'completed' ? result : undefined
      })
    expect((await ended(taskId)).result.structuredContent).toMatchObject({
      status: 'completed',
      output: { paid: true },
    })
    const failed = await ended(failing.message['result'].taskId)
    expect(failed.result).toMatchObject({ isError: true, structuredContent: { status: 'faulted' } })
  })

  test('a client without the extension gets results, and no methods of tasks', async () => {
    const { status, message } = await modernRpc(
      at.server.path,
      at.agent,
      'tasks/get',
      { taskId: 'run_x' },
      FORM,
    )
    expect([status, message['error'].code]).toEqual([400, -32_021])
  })
})
