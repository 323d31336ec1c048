/**
 * Functions that call functions, by their client or by `fetch`: a caller that waits yields its slot, so that many callers at once
 * do not wait for one another.
 */

import { expect, inject, test } from 'vitest'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { deployed, invoke } from '../../support/fixtures/functions.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

test('twenty callers at once, two levels deep: each gets its result', async () => {
  const workspace = await createTestWorkspace()
  const config = { timeout: '50s' }
  const child = await deployed(
    workspace,
    'export default ({ n }) => new Promise((done) => setTimeout(done, 20, n))',
    config,
  )
  const parent = await deployed(
    workspace,
    `export default ({ n }, { tenon }) => tenon.functions.invoke('${child}', { n })`,
    config,
  )
  const top = await deployed(
    workspace,
    `export default ({ n }, { tenon }) => tenon.functions.invoke('${parent}', { n })`,
    config,
  )
  const numbers = Array.from({ length: 20 }, (_, n) => n)
  const replies = await Promise.all(numbers.map((n) => invoke(workspace.service, top, { n })))
  expect(replies.map(({ status, body }) => [status, body.detail])).toEqual(
    numbers.map(() => [200, undefined]),
  )
  expect(replies.map(({ body }) => body)).toEqual(numbers)
})

test('caller whose time ends first: fails by its own limit; what it called goes on to its own end, with its result and its caller', async () => {
  const workspace = await createTestWorkspace()
  const runs = new FunctionRuns(workspace)
  const slow = 'export default ({ ms }) => new Promise((done) => setTimeout(done, ms, "done"))'
  const child = await runs.deploy('child', slow, { timeout: '20s' })
  const source = `export default (input, { tenon }) => tenon.functions.invoke('${child}', input)`
  const parent = await runs.deploy('parent', source, { timeout: '2s' })
  const { status, body, headers } = await runs.invoke(parent, { ms: 4_000 })
  expect([status, body.code]).toEqual([504, 'function_timeout'])
  const own = await runs.ended(parent, headers.get('x-run-id') ?? '')
  expect([own.status, own.error.code]).toEqual(['failed', 'function_timeout'])
  const [called = ''] = await runs.ids(child)
  const ended = await runs.ended(child, called)
  expect([ended.status, ended.trigger]).toMatchObject(['completed', { kind: 'function' }])
  expect(Date.parse(ended.ended_at)).toBeGreaterThan(Date.parse(own.ended_at))
  // Nothing of the two is left over: the next call of both has its result.
  expect((await runs.invoke(parent, { ms: 10 })).body).toBe('done')
})

test('twenty callers that send requests to the platform itself: each gets its result', async () => {
  const { host, origin } = new URL(inject('tenon').url)
  const workspace = await createTestWorkspace()
  await configure(workspace, { egress: { allow: [host] } })
  const child = await deployed(
    workspace,
    'export default ({ n }) => new Promise((done) => setTimeout(done, 20, n))',
  )
  const caller = await deployed(
    workspace,
    `export default async ({ n, headers }) => {
      const sent = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify({ n }) }
      const response = await fetch('${origin}/v1/functions/${child}/invoke', sent)
      return response.json()
    }`,
    { egress: [host] },
  )
  const numbers = Array.from({ length: 20 }, (_, n) => n)
  const headers = workspace.service
  const replies = await Promise.all(numbers.map((n) => invoke(headers, caller, { n, headers })))
  expect(replies.map(({ body }) => body)).toEqual(numbers)
})
