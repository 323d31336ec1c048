// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Attacks on four eyes: whoever stands behind an execution decides it with another credential, account, group or address. */

import { beforeAll, describe, expect, test } from 'vitest'
import { addAccount, Browser, bearer } from '../support/clients/browser.ts'
import { mailsTo, mailTo } from '../support/clients/mails.ts'
import { askToken, callTool, ok, publishMcpServer, scopesOf } from '../support/clients/mcp.ts'
import {
  Admins,
  type Machine,
  type Person,
  post,
  remove,
  setPassword,
  tokenFor,
} from '../support/fixtures/admins.ts'
import { Executions } from '../support/fixtures/executions.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
let admins: Admins
let place: { tenant_id: string; workspace_id: string }
/** The attacker, and an admin who has nothing to do with it. */
let mallory: Person
let carol: Person

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  admins = new Admins(workspace)
  place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  mallory = await person(addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: place.tenant_id }))
  carol = await person(addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: place.tenant_id }))
})

const approve = (run: string, as: Caller) => executions.send(run, 'approve', { approved: true }, as)
const person: Admins['person'] = (...args) => admins.person(...args)
const admin: Admins['made'] = (...args) => admins.made(...args)
const machine = (as: Caller) => admins.machine(as)
const newKey = (as: Caller) => admins.newKey(as)
const key = async (as: Caller): Promise<Caller> => ({ apikey: (await newKey(as)).key })

/** A flow that publishes an event. */
const tell = (on: Executions, type: string) =>
  on.publish(`  - tell: { emit: { event: { with: { type: ${type}, data: {} } } } }`)
async function reset(by: Person): Promise<Person> {
  const one = await admin(workspace.operator)
  await setPassword((await post(by.as, `/v1/accounts/${one.id}/reset`)).reset_url)
  return one
}

/** Approvers by which everybody of a case could decide, if nothing excluded them. */
const APPROVERS = "['role:workspace_admin', 'role:tenant_admin', 'role:service', 'group:finance']"

interface Way {
  readonly starter?: () => Promise<Caller>
  /** Instead of a starter: what makes an event of this type (`unique`, unless it is the platform's own). */
  readonly event?: { readonly type?: string; readonly make: (type: string) => Promise<unknown> }
  /** After the question was asked. @returns who decides */
  readonly decider: () => Promise<Caller>
  /** Before it was asked. */
  readonly before?: () => Promise<unknown>
}

const ORDERS = unique('orders')
const ordersDeclared = () => ({
  workspace_id: place.workspace_id,
  collection: ORDERS,
  store: 'relational',
  schema: { type: 'object', properties: { sum: { type: 'integer' } }, additionalProperties: false },
})
let made: Person
/** As they were shown. */
let deleted: Machine
let revoked: { id: string; key: string }
const WAYS: Readonly<Record<string, Way>> = {
  'the starter': { decider: async () => mallory.as },
  'the maker of the key that started it': { starter: () => key(mallory.as), decider: async () => mallory.as },
  'the maker of the client that started it': {
    starter: async () => tokenFor(await machine(mallory.as)),
    decider: async () => mallory.as,
  },
  'the maker of a client that made the key that started it': {
    starter: async () => key(await tokenFor(await machine(mallory.as))),
    decider: async () => mallory.as,
  },
  'who rotated the secret of the client that started it': {
    starter: async () => {
      const { client_id } = await machine(workspace.operator)
      return tokenFor(await post(mallory.as, `/v1/oauth-clients/${client_id}/rotate-secret`))
    },
    decider: async () => mallory.as,
  },
  'the maker of a deleted client that started it': {
    starter: async () => {
      deleted = await machine(mallory.as)
      return tokenFor(deleted)
    },
    decider: async () => {
      await remove(`/v1/oauth-clients/${deleted.client_id}`, mallory.as)
      return mallory.as
    },
  },
  'the maker of a deleted client that made the key that started it': {
    starter: async () => {
      const client = await machine(mallory.as)
      const made = await key(await tokenFor(client))
      await remove(`/v1/oauth-clients/${client.client_id}`, mallory.as)
      return made
    },
    decider: async () => mallory.as,
  },
  'the maker of a revoked key that started it': {
    starter: async () => {
      revoked = await newKey(mallory.as)
      return { apikey: revoked.key }
    },
    decider: async () => {
      await remove(`/v1/api-keys/${revoked.id}`, mallory.as)
      return mallory.as
    },
  },
  'an account that a deleted account of the starter made': {
    before: async () => {
      const between = await admin(mallory.as)
      made = await admin(between.as)
      await remove(`/v1/accounts/${between.id}`, mallory.as)
    },
    decider: async () => made.as,
  },
  'the maker of the account that started it': {
    starter: async () => (await admin(mallory.as)).as,
    decider: async () => mallory.as,
  },
  'who reset the account that started it': {
    starter: async () => (await reset(mallory)).as,
    decider: async () => mallory.as,
  },
  'another account of the maker of the account that started it': {
    before: async () => {
      made = await admin(mallory.as)
    },
    starter: async () => (await admin(mallory.as)).as,
    decider: async () => made.as,
  },
  'the maker of the account that started it, which another admin confirmed afterwards': {
    starter: async () => {
      made = await admin(mallory.as)
      return made.as
    },
    decider: async () => {
      await post(carol.as, `/v1/accounts/${made.id}/confirm`)
      return mallory.as
    },
  },
  'the maker of the account that published the event': {
    event: {
      make: async (topic) => {
        const as = await key((await admin(mallory.as)).as)
        await post(as, '/v1/events/publish', { topic, data: {} })
      },
    },
    decider: async () => mallory.as,
  },
  'a key of the starter': { decider: () => key(mallory.as) },
  'a client of the starter': { decider: async () => tokenFor(await machine(mallory.as)) },
  'an account that the starter made before': {
    before: async () => {
      made = await admin(mallory.as)
    },
    decider: async () => made.as,
  },
  'an account that a key of the starter’s client could make': {
    before: async () => {
      made = await admin(await tokenFor(await machine(mallory.as)))
    },
    decider: async () => made.as,
  },
  'an account that an account of the starter made': {
    before: async () => {
      made = await admin((await admin(mallory.as)).as)
    },
    decider: async () => made.as,
  },
  'an account whose groups the starter set before': {
    before: async () => {
      made = await admin(workspace.operator)
      await ok(call('PATCH', `/v1/accounts/${made.id}`, { as: mallory.as, body: { groups: ['finance'] } }))
    },
    decider: async () => made.as,
  },
  'an account that the starter reset before': {
    before: async () => {
      made = await reset(mallory)
    },
    decider: async () => made.as,
  },
  'the maker of the key that published the event': {
    event: { make: async (topic) => post(await key(mallory.as), '/v1/events/publish', { topic, data: {} }) },
    decider: async () => mallory.as,
  },
  'an account of the maker of the key that published the event': {
    before: async () => {
      made = await admin(mallory.as)
    },
    event: { make: async (topic) => post(await key(mallory.as), '/v1/events/publish', { topic, data: {} }) },
    decider: async () => made.as,
  },
  'the maker of the key that wrote the document of the event': {
    before: () => post(workspace.operator, '/v1/schemas', ordersDeclared()),
    event: {
      type: `collections.${ORDERS}.created`,
      make: async () => post(await key(mallory.as), `/v1/collections/${ORDERS}/documents`, { sum: 1 }),
    },
    decider: async () => mallory.as,
  },
  'the maker of the key that started the execution which published the event': {
    event: {
      make: async (type) => {
        const flow = await tell(executions, type)
        await post(await key(mallory.as), `/v1/flows/${flow}/executions`)
      },
    },
    decider: async () => mallory.as,
  },
  'the maker of a deleted client of an MCP server that started the execution which published the event': {
    event: {
      make: async (type) => {
        const flow = await tell(executions, type)
        const experimental = { workspace_id: place.workspace_id, experimental: ['mcp.flow_tools'] }
        await post(workspace.operator, '/v1/services/configure', experimental)
        const server = await publishMcpServer(workspace, unique('s'), {
          [`flows:${flow}:run`]: { enabled: true },
        })
        const agent = await post(mallory.as, `${server.base}/clients`, { name: 'agent' })
        const scope = scopesOf(server, `run_${flow}`)
        const { body } = await askToken(
          { resource: server.url, scope },
          { id: agent.client_id, secret: agent.client_secret },
        )
        await callTool(server.path, bearer(body['access_token'] ?? ''), `run_${flow}`, {})
        await remove(`${server.base}/clients/${agent.client_id}`, mallory.as)
      },
    },
    decider: async () => mallory.as,
  },
  'the starter of the execution in another workspace which published the event': {
    event: {
      make: async (type) => {
        const elsewhere = new Executions(await addTestWorkspace(workspace))
        const flow = await tell(elsewhere, type)
        await elsewhere.start(flow, {}, mallory.as)
      },
    },
    decider: async () => mallory.as,
  },
  'an account that somebody else made afterwards': { decider: async () => (await admin(carol.as)).as },
  'an account that got its groups afterwards': {
    before: async () => {
      made = await admin(workspace.operator)
    },
    decider: async () => {
      await ok(call('PATCH', `/v1/accounts/${made.id}`, { as: carol.as, body: { groups: ['finance'] } }))
      return made.as
    },
  },
}

/** Every route by which somebody could end the wait of the approval `apr` in a run. */
const ROUTES = [
  approve,
  (_id: string, as: Caller, apr: string) =>
    call('POST', `/v1/approvals/${apr}/decide`, { as, body: { approved: true } }),
  (_id: string, as: Caller, apr: string) =>
    call('POST', `${workspace.flows}/approvals/${apr}/decide`, { as, body: { approved: true } }),
  (id: string, as: Caller) => executions.send(id, 'skip-step', { output: { approved: true } }, as),
  (id: string, as: Caller) =>
    executions.send(id, 'skip-step', { step: '/do/0/board#1', output: { approved: true } }, as),
  (id: string, as: Caller) => executions.send(id, 'patch-data', { context: { approved: true } }, as),
] as const

interface Asked {
  readonly run: string
  readonly apr: string
  readonly title: string
}

const board = (title: string, approvers: string) =>
  `  - board: { approve: { title: ${title}, approvers: ${approvers} } }`

async function ask(as: Caller, approvers = APPROVERS): Promise<Asked> {
  const title = unique('Pay')
  const flow = await executions.publish(board(title, approvers))
  const byKey = async () => (await post(as, `/v1/flows/${flow}/executions`)).id
  const run = await ('apikey' in as ? byKey() : executions.start(flow, {}, as))
  return approvalRequested(run, title)
}

async function askByEvent({ type = unique('paid'), make }: NonNullable<Way['event']>): Promise<Asked> {
  const title = unique('Pay')
  const more = `schedule: { on: { one: { with: { type: ${type} } } } }\n`
  const flow = await executions.publish(board(title, APPROVERS), { more })
  await make(type)
  const run = await eventually(async () => {
    const { flows, operator: as } = workspace
    return (await ok(call('GET', `${flows}/definitions/${flow}/executions`, { as }))).data[0]?.id
  })
  return approvalRequested(run, title)
}

async function approvalRequested(run: string, title: string): Promise<Asked> {
  const { approvals } = await executions.until(
    run,
    (one) => one.status === 'waiting' && one.approvals?.length === 1,
  )
  return { run, apr: approvals[0].id, title }
}

async function expectUndecided(run: string): Promise<void> {
  const { status, approvals } = await executions.read(run)
  expect([status, approvals[0].decisions]).toEqual(['waiting', []])
}

describe('four eyes', () => {
  test.each(Object.keys(WAYS))('decided by %s: refused by every route, the run still waits', async (name) => {
    const { starter = async () => mallory.as, event, before = async () => {}, decider } = WAYS[name] as Way
    await before()
    const { run, apr } = event === undefined ? await ask(await starter()) : await askByEvent(event)
    const as = await decider()
    for (const [n, route] of ROUTES.entries()) {
      const { status, body } = await route(run, as, apr)
      // Keys have a part of the routes.
      expect([403, 404, 409], `route ${n}: ${status} ${JSON.stringify(body)}`).toContain(status)
    }
    await executions.send(run, 'signal', { event: { type: 'approved', source: '/x', id: unique('e') } }, as)
    await expectUndecided(run)
    expect(
      (await call('GET', '/v1/approvals?mine=true&page[size]=200', { as })).body.data?.map?.(
        ({ id }: { id: string }) => id,
      ) ?? [],
    ).not.toContain(apr)
    // Somebody who has nothing to do with it decides, which is on record with who made the account.
    expect((await approve(run, carol.as)).status).toBe(200)
    const { output } = await executions.ended(run)
    expect(output.decisions).toMatchObject([{ by: carol.id, created_by: 'tenon-operator' }])
  })

  test('account of the starter, confirmed: by an account of the starter it stays excluded, by another admin it decides', async () => {
    const own = await admin(mallory.as)
    const puppet = await person(
      addAccount(mallory.as, { role: 'tenant_admin', tenant_id: place.tenant_id }),
      'tenant_admin',
    )
    const { run } = await ask(mallory.as)
    for (const by of [mallory, puppet]) {
      await post(by.as, `/v1/accounts/${own.id}/confirm`)
      expect((await approve(run, own.as)).status).toBe(409)
    }
    await post(carol.as, `/v1/accounts/${own.id}/confirm`)
    expect((await approve(run, own.as)).status).toBe(200)
    await executions.ended(run)
  })

  test('one person with two credentials: counts once for the quorum', async () => {
    const flow = await executions.publish(`  - board: { approve: { approvers: ${APPROVERS}, quorum: 2 } }`)
    const run = await executions.start(flow, {}, mallory.as)
    await executions.until(run, (one) => one.status === 'waiting' && one.approvals?.length === 1)
    expect((await approve(run, carol.as)).status).toBe(200)
    const again = await approve(run, await tokenFor(await machine(carol.as)))
    expect([again.status, again.body.detail]).toEqual([409, expect.stringContaining('has decided already')])
    await executions.send(run, 'cancel')
  })

  test.each(['maker first', 'account first'])(
    'quorum of two, by the maker of an account and that account, %s: counts once, until another admin has confirmed it before',
    async (order) => {
      const own = await admin(carol.as)
      const ask = async (people: Person[]) => {
        const flow = await executions.publish(
          `  - board: { approve: { approvers: ${APPROVERS}, quorum: 2 } }`,
        )
        const run = await executions.start(flow, {}, mallory.as)
        await executions.until(run, (one) => one.status === 'waiting' && one.approvals?.length === 1)
        const replies = []
        for (const { as } of people) replies.push(await approve(run, as))
        await executions.send(run, 'cancel')
        return replies.map(({ status, body }) => [status, body.detail])
      }
      const both = order === 'maker first' ? [carol, own] : [own, carol]
      expect(await ask(both)).toEqual([
        [200, undefined],
        [409, expect.stringContaining('has decided already')],
      ])
      await post(workspace.operator, `/v1/accounts/${own.id}/confirm`)
      expect(await ask(both)).toEqual([
        [200, undefined],
        [200, undefined],
      ])
    },
  )

  test('started by an account whose password a mailed link has set: its maker decides', async () => {
    const email = `${unique('ada')}@example.test`
    const body = { role: 'workspace_admin', ...place, email, mail: true }
    const { id } = await post(mallory.as, '/v1/accounts', body)
    await setPassword((await mailTo(email, 'Set the password')).link)
    const own = await person(Promise.resolve({ id, email }), 'workspace_admin')
    const { run } = await ask(own.as)
    expect((await approve(run, mallory.as)).status).toBe(200)
    await executions.ended(run)
  })

  test('data patched with a key or client: its maker may not decide', async () => {
    const flow = await executions.publish(`  - board: { approve: { approvers: ${APPROVERS} } }`)
    const run = await executions.start(flow, {}, workspace.operator)
    await executions.until(run, (one) => one.status === 'waiting' && one.approvals?.length === 1)
    const patch = { context: { sum: 1 } }
    await ok(executions.send(run, 'pause'))
    expect(
      (await executions.send(run, 'patch-data', patch, await tokenFor(await machine(mallory.as)))).status,
    ).toBe(200)
    await ok(executions.send(run, 'resume'))
    const refused = await approve(run, mallory.as)
    expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
    await executions.send(run, 'cancel')
  })
})

describe('address of an approver', () => {
  test('account that the starter made for it by a link that was shown: does not decide; the mailbox does, without it', async () => {
    const email = `${unique('approver')}@example.test`
    const fake = await admin(mallory.as, { email })
    const { run, apr, title } = await ask(mallory.as, `['${email}']`)
    for (const route of ROUTES.slice(0, 3))
      expect([403, 409]).toContain((await route(run, fake.as, apr)).status)
    await expectUndecided(run)
    const { link } = await mailTo(email, title)
    const browser = new Browser('nowhere:')
    const done = await browser.submit(await browser.open(link), { action: 'approve' })
    expect(done.status).toBe(200)
    expect((await executions.ended(run)).output.decisions).toMatchObject([{ by: email, approved: true }])
    expect((await browser.submit(await browser.open(link), { action: 'reject' })).status).not.toBe(200)
  })

  test('invited by mail: the link is not shown, and its use verifies the address, until a link is shown again', async () => {
    const email = `${unique('approver')}@example.test`
    const invited = await post(mallory.as, '/v1/accounts', {
      role: 'workspace_admin',
      ...place,
      email,
      mail: true,
    })
    expect(invited).toMatchObject({ invitation_url: null, email_verified_at: null })
    const browser = new Browser('nowhere:')
    const password = 'correct horse again'
    const { link } = await mailTo(email, 'Set the password')
    expect((await browser.submit(await browser.open(link), { password, again: password })).status).toBe(200)
    const read = () => ok(call('GET', `/v1/accounts/${invited.id}`, { as: carol.as }))
    expect((await read()).email_verified_at).not.toBeNull()
    const { run } = await ask(mallory.as, `['${email}']`)
    const as = await tokenOf({ sub: invited.id, roles: ['workspace_admin'], ...place })
    expect((await approve(run, as)).status).toBe(200)
    await executions.ended(run)
    await post(mallory.as, `/v1/accounts/${invited.id}/reset`)
    expect((await read()).email_verified_at).toBeNull()
  })

  test('address of the starter, whose account was deleted: neither its mailbox nor its next account decides', async () => {
    const own = await admin(workspace.operator)
    const { run, title } = await ask(own.as, `['${own.email}', 'role:workspace_admin', '${carol.id}']`)
    await remove(`/v1/accounts/${own.id}`, workspace.operator)
    const next = await admin(workspace.operator, { email: own.email })
    await mailTo(carol.email, title)
    expect(await mailsTo(own.email, title)).toEqual([])
    await post(carol.as, `/v1/accounts/${next.id}/confirm`)
    expect((await approve(run, next.as)).status).toBe(409)
    await ok(approve(run, carol.as))
    await executions.ended(run)
  })

  test('address of the starter itself, not verified: its mailbox may not decide', async () => {
    const own = await admin(workspace.operator)
    const { run, title } = await ask(own.as, `['${own.email}', '${carol.id}']`)
    await mailTo(carol.email, title)
    expect(await mailsTo(own.email, title)).toEqual([])
    await ok(approve(run, carol.as))
    await executions.ended(run)
  })
})
