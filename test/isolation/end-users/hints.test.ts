/** Sweeps all operations and problems: no reply to an anon key or a user tells what only an admin or an operator can do. */

import { beforeAll, expect, test } from 'vitest'
import { toReply } from '../../../src/api/problems.ts'
import { Problem } from '../../../src/core/problem.ts'
import { PROBLEMS, type ProblemCode } from '../../../src/core/problem-catalogue.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { ROWS, type World } from '../sweep-rows.ts'

const ADMIN = /\b(admins?|operators?)\b|tenon [a-z]|\/v1\/services|\/v1\/schemas|explain/i

let callers: Record<'anon key' | 'user', Caller>
let world: World
beforeAll(async () => {
  const workspace = await createTestWorkspace()
  callers = { 'anon key': workspace.anon, user: await userToken(workspace, 'mia') }
  // Ids that nothing has.
  const ids: Record<string, unknown> = {
    workspace,
    failing: { name: 'absent', id: 'absent', runId: 'absent' },
  }
  world = new Proxy(ids, { get: (of, name: string) => of[name] ?? 'absent' }) as unknown as World
})

test.each(['anon key', 'user'] as const)(
  'each operation: sent by an %s: has no hint for admins',
  async (who) => {
    const told: string[] = []
    for (const { name, http } of OPERATIONS) {
      const row = ROWS[name]
      if (row === undefined) continue
      const body = row.body?.(world)
      const { status, body: reply } = await call(http.method, row.path(world), {
        as: callers[who],
        ...(body !== undefined && { body }),
      })
      if (status < 400) continue
      if (http.method !== 'HEAD') expect([name, typeof reply.hint]).toEqual([name, 'string'])
      if (ADMIN.test(reply.hint ?? '')) told.push(`${name}: ${reply.hint}`)
    }
    expect(told).toEqual([])
  },
)

test.each(Object.keys(PROBLEMS) as ProblemCode[])('%s: its hint is a sentence for everybody', (code) => {
  const { hint } = toReply(new Problem(code), { id: 'req_1', path: '/', isPublic: true }).body
  expect(hint).toMatch(/^[A-Z`].*\.$/s)
  expect(hint).not.toMatch(ADMIN)
})

test('misspelt name of a collection or field: sent by a caller who may not see it: is answered like any other name', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const schema = { properties: { salary: { type: 'integer' } }, additionalProperties: false }
  for (const { workspaceId: workspace_id } of [workspace, sibling]) {
    const collection = workspace_id === sibling.workspaceId ? 'theirs' : 'tickets'
    const body = { workspace_id, collection, store: 'relational', schema, access: { user: { create: true } } }
    expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  }
  const answer = async (as: Caller, name: string, query: string) => {
    const { status, body } = await call('GET', `/v1/collections/${name}/documents${query}`, { as })
    return JSON.stringify([status, { ...body, request_id: '' }]).replaceAll(name, 'NAME')
  }
  for (const as of [workspace.anon, await userToken(workspace, 'mia')])
    for (const query of ['', '?order=sallary.desc', '?sallary=gt.1', '?select=sallary']) {
      const [absent, ...near] = await Promise.all(
        ['zzzzzz', 'tickt', 'theirz', 'theirs'].map((name) => answer(as, name, query)),
      )
      expect(near).toEqual([absent, absent, absent])
      const closed = await answer(as, 'tickets', query)
      expect(closed).toContain('"forbidden"')
      expect(closed).not.toContain('salary')
    }
})
