/** Calls of a flow whose effect depends on what they find: an attempt that is made again, since the result of the first was lost, changes nothing. */

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { FunctionCall } from '../../../src/activities/contract.ts'
import { callFunction, callOnce } from '../../../src/activities/flow/call-function.ts'
import { Scopes } from '../../../src/activities/tenant-interceptor.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { seededIds } from '../../../src/core/ids.ts'
import { refOf } from '../../../src/core/tenant.ts'
import { batchAnywhere } from '../../../src/features/collections/batch.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let platform: Platform
let workspace: TestWorkspace
beforeAll(async () => {
  platform = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test')).platform
  workspace = await createTestWorkspace()
})
afterAll(() => platform.close())

/** The scope of an attempt of the activity of that name. */
function scopeOf(activity: string) {
  const workflowId = `${workspace.tenantId}:${workspace.workspaceId}:flow:test`
  const ref = refOf(workflowId)
  if (ref === undefined) throw new TypeError('the id names a workspace')
  const random = (n: number) => createHash('sha256').update(`${activity}/${n}`).digest().subarray(0, 16)
  const ids = seededIds(Date.parse('2026-01-01'), random)
  return new Scopes(platform.access).active({ ref, workflowId, ids, chainDepth: 0, attempt: 1 }, 'service')
}

const attempt = async (activity: string, name: string, args: FunctionCall['arguments']) =>
  callFunction(
    await scopeOf(activity),
    { function: name, arguments: args },
    { idempotency: platform.idempotency },
  )

const documents = (id = '') => `/v1/collections/counters/documents${id && `/${id}`}`
const get = async (id: string) => (await call('GET', documents(id), { as: workspace.service })).body
const create = async (): Promise<string> =>
  (await call('POST', documents(), { as: workspace.service, body: { n: 0 } })).body.id

test.each<[string, (id: string) => readonly [string, FunctionCall['arguments']]]>([
  ['operators', (id) => ['collection.patch', { name: 'counters', id, operators: { inc: { n: 1 } } }]],
  [
    'a patch at a version',
    (id) => ['collection.patch', { name: 'counters', id, document: { n: 1 }, if_match: '"v1"' }],
  ],
  [
    'an update at a version',
    (id) => ['collection.update', { name: 'counters', id, document: { n: 1 }, if_match: '"v1"' }],
  ],
  ['a batch', (id) => ['batch.run', { ops: [{ collection: 'counters', op: 'increment', id, field: 'n' }] }]],
  [
    'a batch of operations by themselves',
    (id) => [
      'batch.run',
      { atomic: false, ops: [{ collection: 'counters', op: 'update', id, inc: { n: 1 } }] },
    ],
  ],
])('%s: made once, and the attempts have one result', async (_, callOf) => {
  const id = await create()
  const [name, args] = callOf(id)
  const activity = unique('activity')
  const first = await attempt(activity, name, { ...args })
  const again = await attempt(activity, name, { ...args })
  expect(again).toEqual(first)
  expect(await get(id)).toMatchObject({ n: 1, _version: 2 })
})

test('a deletion: made once, and the attempts have one result', async () => {
  const id = await create()
  const activity = unique('activity')
  const first = await attempt(activity, 'collection.delete', { name: 'counters', id })
  expect(await attempt(activity, 'collection.delete', { name: 'counters', id })).toEqual(first)
  await expect(
    attempt(unique('activity'), 'collection.delete', { name: 'counters', id }),
  ).rejects.toMatchObject({
    code: 'not_found',
  })
})

test('a document under a chosen id: created once, and found by the next attempt', async () => {
  const args = { name: 'counters', id: crypto.randomUUID(), document: { n: 0 }, if_none_match: '*' }
  const activity = unique('activity')
  const first = await attempt(activity, 'collection.update', args)
  expect(await attempt(activity, 'collection.update', args)).toEqual(first)
  await expect(attempt(unique('activity'), 'collection.update', args)).rejects.toMatchObject({
    code: 'precondition_failed',
  })
})

test('a call that is refused: the next attempt makes it, if it can be made then', async () => {
  const id = crypto.randomUUID()
  const args = { name: 'counters', id, operators: { inc: { n: 1 } } }
  const activity = unique('activity')
  await expect(attempt(activity, 'collection.patch', args)).rejects.toMatchObject({ code: 'not_found' })
  await call('PUT', documents(id), {
    as: workspace.service,
    body: { n: 0 },
    headers: { 'if-none-match': '*' },
  })
  expect(await attempt(activity, 'collection.patch', args)).toMatchObject({ n: 1 })
})

test('an attempt that may still run: the next one is to be tried again, and finds the result of the first', async () => {
  const activity = unique('activity')
  const args = { ops: [] }
  let end = (_: unknown) => {}
  const ended = new Promise((resolve) => {
    end = resolve
  })
  let begun = () => {}
  const running = new Promise<void>((resolve) => {
    begun = resolve
  })
  const run = () => {
    begun()
    return ended
  }
  const once = async () =>
    callOnce(await scopeOf(activity), { operation: batchAnywhere, args, run }, platform.idempotency)
  const first = once()
  await running
  await expect(once()).rejects.toMatchObject({ code: 'overloaded' })
  end({ committed: true })
  expect(await first).toEqual({ committed: true })
  expect(await once()).toEqual({ committed: true })
})
