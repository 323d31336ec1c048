/** Approvers whose tokens come from an external issuer: their roles and groups are those that the issuer claims for them. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { AUDIENCE, PeerIssuer, type Realm } from '../../support/servers/peer-issuer.ts'
import { type ApiWithIssuers, startApiWithIssuers } from '../../support/stack/api-with-issuers.ts'

let peer: PeerIssuer
let company: Realm
/** An issuer without a claim for groups. */
let plain: Realm
let workspace: TestWorkspace
let other: TestWorkspace
let executions: Executions
let node: ApiWithIssuers

beforeAll(async () => {
  ;[peer, workspace, other] = await Promise.all([
    PeerIssuer.open(),
    createTestWorkspace(),
    createTestWorkspace(),
  ])
  ;[company, plain] = await Promise.all([peer.realm('company'), peer.realm('plain')])
  executions = new Executions(workspace)
  const common = { audience: AUDIENCE, tenants: '*' as const, claims: { roles: 'roles' } }
  node = await startApiWithIssuers([
    {
      ...common,
      issuer: company.issuer,
      claims: { roles: 'roles', groups: 'resource.groups' },
      roles: { app: 'service', lead: 'workspace_admin', root: 'operator' },
    },
    { ...common, issuer: plain.issuer },
  ])
})
afterAll(() => Promise.all([node.close(), peer.close()]))

const person = (
  sub: string,
  groups: unknown,
  {
    realm = company,
    roles = ['app'],
    of = workspace,
  }: { realm?: Realm; roles?: string[]; of?: TestWorkspace } = {},
): Promise<Caller> =>
  realm.token({ sub, roles, tenant_id: of.tenantId, workspace_id: of.workspaceId, resource: { groups } })

async function ask(approvers: readonly string[], more: object = {}): Promise<string> {
  const task = { board: { approve: { approvers, ...more } } }
  const run = await executions.start(await executions.publish(`  - ${JSON.stringify(task)}`))
  const execution = await executions.until(run, ({ approvals }) => approvals !== undefined)
  return execution.approvals[0].id
}

const decide = (id: string, as: Caller, body: object = { approved: true }) =>
  call('POST', `/v1/approvals/${id}/decide`, { as, body, at: node.at })

async function isMine(id: string, as: Caller): Promise<boolean> {
  const { body } = await call('GET', '/v1/approvals?mine=true&page[size]=200', { as, at: node.at })
  return body.data.some((one: Reply['body']) => one.id === id)
}

test('group of a claim: sees the approval and decides it, as that group', async () => {
  const id = await ask(['group:finance'])
  const ada = await person('ada', ['staff', 'finance'])
  const bob = await person('bob', ['staff'])
  expect([await isMine(id, ada), await isMine(id, bob)]).toEqual([true, false])
  expect((await decide(id, bob)).body.detail).toBe(`\`${company.issuer}#bob\` is not an approver.`)
  expect((await decide(id, ada)).body).toMatchObject({
    status: 'approved',
    decisions: [{ by: `${company.issuer}#ada`, as: 'group:finance', approved: true }],
  })
})

test('role of a claim: decides as that role; an admin below the path of the workspace', async () => {
  const id = await ask(['role:service'])
  const decided = await decide(id, await person('ada', undefined), { approved: false, comment: 'no' })
  expect(decided.body).toMatchObject({
    status: 'rejected',
    decisions: [{ as: 'role:service', comment: 'no' }],
  })
  const inbox = await ask(['group:board'])
  const as = await person('eve', 'board', { roles: ['lead'] })
  const path = `${workspace.flows}/approvals/${inbox}/decide`
  const { body } = await call('POST', path, { as, at: node.at, body: { approved: true } })
  expect(body).toMatchObject({ status: 'approved', decisions: [{ as: 'group:board' }] })
})

test('two people of one group, quorum 2: each decides once', async () => {
  const id = await ask(['group:finance', 'group:legal'], { quorum: 2 })
  const [ada, eve] = [await person('ada', ['finance', 'legal']), await person('eve', ['finance'])]
  expect((await decide(id, ada)).body).toMatchObject({ status: 'open' })
  expect((await decide(id, ada)).body.detail).toContain('has decided already')
  expect((await decide(id, eve)).body).toMatchObject({ status: 'approved' })
})

test('groups that do not count: of an issuer without that claim, malformed, of another tenant, of an operator', async () => {
  const id = await ask(['group:finance'])
  const without = await person('ada', ['finance'], { realm: plain, roles: ['service'] })
  expect([await isMine(id, without), (await decide(id, without)).status]).toEqual([false, 409])
  for (const groups of [
    [['finance']],
    { finance: true },
    ['/finance'],
    ['Finance'],
    [7],
    null,
    'group:finance',
  ]) {
    const as = await person('ada', groups)
    expect([groups, await isMine(id, as), (await decide(id, as)).status]).toEqual([groups, false, 409])
  }
  const stranger = await person('ada', ['finance'], { of: other })
  expect([await isMine(id, stranger), (await decide(id, stranger)).status]).toEqual([false, 404])
  const operator = await company.token({ sub: 'root', roles: ['root'], resource: { groups: ['finance'] } })
  const path = `${workspace.flows}/approvals/${id}/decide`
  const refused = await call('POST', path, { as: operator, at: node.at, body: { approved: true } })
  expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('is not an approver')])
})
