/** Sweeps all operations and problems: no reply to an anon key or a user tells what only an admin or an operator can do. */

import { beforeAll, expect, test } from 'vitest'
import { toReply } from '../../../src/api/problems.ts'
import { Problem } from '../../../src/core/problem.ts'
import { PROBLEMS, type ProblemCode } from '../../../src/core/problem-catalogue.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  tokenOf,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'
import { ROWS, type World } from '../sweep-rows.ts'

/** What an admin does, but for the list of the filter operators. */
const ADMIN = /\badmins?\b|\boperators?\b(?!: eq)|tenon [a-z]|\/v1\/services|\/v1\/schemas|explain/i

const CALLERS = [
  'anon key',
  'anon key that reads undeclared collections',
  'user',
  'disabled anon key',
  'revoked anon key',
  'anon key of a suspended workspace',
  'user of a suspended workspace',
  'user whose token has expired',
] as const
let callers: Record<(typeof CALLERS)[number], Caller>
/** The one answer to callers who are not let in. */
const REFUSED: Partial<Record<(typeof CALLERS)[number], string>> = {
  'disabled anon key': 'api_key_disabled',
  'revoked anon key': 'api_key_revoked',
  'anon key of a suspended workspace': 'workspace_suspended',
  'user of a suspended workspace': 'workspace_suspended',
  'user whose token has expired': 'token_expired',
}

let world: World
beforeAll(async () => {
  const workspace = await createTestWorkspace()
  const keys = keysOf(workspace)
  const [disabled, revoked] = await Promise.all([keys.make({ kind: 'anon' }), keys.make({ kind: 'anon' })])
  await keys.change(disabled.id, { status: 'disabled' })
  await keys.revoke(revoked.id)
  const [suspended, open] = [await addTestWorkspace(workspace), await addTestWorkspace(workspace)]
  await openCollectionsToAnon(open)
  await call('POST', `/v1/workspaces/${suspended.workspaceId}/suspend`, { as: workspace.operator })
  callers = {
    'anon key': workspace.anon,
    'anon key that reads undeclared collections': open.anon,
    user: await userToken(workspace, 'mia'),
    'disabled anon key': { apikey: disabled.key },
    'revoked anon key': { apikey: revoked.key },
    'anon key of a suspended workspace': suspended.anon,
    'user of a suspended workspace': await userToken(suspended, 'mia'),
    'user whose token has expired': await tokenOf({
      ...{
        role: 'user',
        roles: ['user'],
        tenant_id: workspace.tenantId,
        workspace_id: workspace.workspaceId,
      },
      exp: 1_700_000_000,
    }),
  }
  // Ids that nothing has.
  const ids: Record<string, unknown> = {
    workspace,
    failing: { name: 'absent', id: 'absent', runId: 'absent' },
  }
  world = new Proxy(ids, { get: (of, name: string) => of[name] ?? 'absent' }) as unknown as World
})

test.each(CALLERS)('each operation: sent by the %s: has no hint for admins', async (who) => {
  const adminHints: string[] = []
  for (const { name, http } of OPERATIONS) {
    const row = ROWS[name]
    if (row === undefined) continue
    const body = row.body?.(world)
    const { status, body: reply } = await call(http.method, row.path(world), {
      as: callers[who],
      ...(body !== undefined && { body }),
    })
    if (status < 400) continue
    if (REFUSED[who] !== undefined && http.method !== 'HEAD')
      expect([name, reply.code]).toEqual([name, REFUSED[who]])
    if (http.method !== 'HEAD') expect([name, typeof reply.hint]).toEqual([name, 'string'])
    if (ADMIN.test(reply.hint ?? '')) adminHints.push(`${name}: ${reply.hint}`)
  }
  expect(adminHints).toEqual([])
})

test.each(Object.keys(PROBLEMS) as ProblemCode[])('%s: its hint is a sentence for everybody', (code) => {
  const problem = new Problem(code)
  const { hint } = toReply(problem, { id: 'req_1', path: '/' }).body
  expect(hint).toBe(problem.row.help)
  expect(hint).toMatch(/^[A-Z`].*\.$/s)
  expect(hint).not.toMatch(ADMIN)
})

test('schema that is not there: asked for by those who are more than the public: the hint says what an admin does', async () => {
  const workspace = await createTestWorkspace()
  const { tenantId: tenant_id, workspaceId: workspace_id, service, operator: as } = workspace
  const keys = keysOf(workspace)
  const { id, key } = await keys.make()
  await keys.change(id, { status: 'disabled' })
  const tokenWith = (role: string) => tokenOf({ tenant_id, workspace_id, roles: [role] })
  const ask = async (who: Caller) =>
    (await call('GET', `/v1/schemas/sch_${'0'.repeat(32)}`, { as: who })).body
  for (const admin of [as, await tokenWith('tenant_admin'), await tokenWith('workspace_admin')])
    expect((await ask(admin)).hint).toBe('List declared collections with their ids: `GET /v1/schemas`.')
  for (const backend of [service, await tokenWith('service')])
    expect((await ask(backend)).hint).toContain('Administrative routes accept the token of an admin')
  expect((await ask({ apikey: key })).hint).toContain('PATCH /v1/api-keys')
})

test('misspelt name of a collection or field: sent by a caller who may not see it: is answered like any other name', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
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
