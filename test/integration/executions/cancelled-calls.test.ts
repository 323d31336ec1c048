// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Calls that are cancelled after they may have been sent: a server that counts charges and refunds agrees with the record, in
 * every way in which a call is cancelled.
 */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createEntry, Executions, type Shown } from '../../support/fixtures/executions.ts'
import {
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

/** A payment server: a charge of an account takes as many milliseconds as `ms` says, and is counted when it arrives. */
class PaymentServer {
  readonly charges: { readonly account: string; readonly atMs: number }[] = []
  readonly refunds: string[] = []
  /** Requests for tokens; each is answered when it is called. */
  readonly tokens: (() => void)[] = []
  readonly #server: Server = createServer(({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://x')
    const [, kind, account = ''] = pathname.split('/')
    response.setHeader('content-type', 'application/json')
    if (kind === 'token') {
      this.tokens.push(() => response.end(JSON.stringify({ access_token: 't', token_type: 'Bearer' })))
      return
    }
    if (kind === 'charge') this.charges.push({ account, atMs: Date.now() })
    else this.refunds.push(account)
    setTimeout(() => response.end(JSON.stringify({ account })), Number(searchParams.get('ms') ?? 0))
  })

  async open(): Promise<void> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done))
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** A task that charges the account, and refunds it if the flow does not complete. */
  pay(account: string, ms: number, { compensated = true } = {}): string {
    const post = (path: string) =>
      `call: http, with: { method: post, endpoint: 'http://${this.host}/${path}' }`
    const refund = `, compensate: [{ refund: { ${post(`refund/${account}`)} } }]`
    return `${post(`charge/${account}?ms=${ms}`)}${compensated ? refund : ''}`
  }

  async arrived(account: string): Promise<void> {
    await eventually(async () => this.charges.some((one) => one.account === account) || undefined)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}

let workspace: TestWorkspace
let executions: Executions
const server = new PaymentServer()
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  await server.open()
  await configure(workspace, { egress: { allow: [server.host] } })
})
afterAll(() => server.close())

const RAISE = 'raise: { error: { type: runtime, status: 500 } }'
const bad = (ms: number) => `bad: { do: [{ w: { wait: { milliseconds: ${ms} } } }, { r: { ${RAISE} } }] }`

const stepOf = ({ steps }: Shown, name: string): Shown =>
  steps.find((step: { name: string }) => step.name === name)

/** The five ways in which a call under way is cancelled, and the execution does not complete. */
const WAYS: Record<string, (pay: string) => string> = {
  'a sibling branch faults': (pay) => `  - f: { fork: { branches: [{ pay: { ${pay} } }, { ${bad(300)} }] } }`,
  'another branch wins, and the flow faults later': (pay) =>
    `  - f: { fork: { compete: true, branches: [{ pay: { ${pay} } }, { quick: { wait: PT0.3S } }] } }\n  - r: { ${RAISE} }`,
  'the timeout of an enclosing task': (pay) =>
    `  - f: { do: [{ pay: { ${pay} } }], timeout: { after: PT0.3S } }`,
  'the timeout of the flow': (pay) => `  - pay: { ${pay} }`,
  'the execution is cancelled': (pay) => `  - pay: { ${pay} }`,
}

describe('call with compensate that is cancelled while it is under way', () => {
  test.for(Object.entries(WAYS))(
    '%s: it is awaited, shown as completed, and compensated',
    async ([way, tasks]) => {
      const account = unique('a')
      const more = way === 'the timeout of the flow' ? 'timeout: { after: PT0.3S }\n' : ''
      const id = await executions.start(await executions.publish(tasks(server.pay(account, 1_500)), { more }))
      await server.arrived(account)
      if (way === 'the execution is cancelled') expect((await executions.send(id, 'cancel')).status).toBe(202)
      const run = await executions.ended(id)
      expect(stepOf(run, 'pay')).toMatchObject({ status: 'completed', error: null })
      expect(run.compensation).toEqual({ undone: [expect.stringMatching(/pay#0$/)], failures: [] })
      const count = (list: readonly unknown[]) => list.filter((one) => one === account).length
      expect([count(server.charges.map((one) => one.account)), count(server.refunds)]).toEqual([1, 1])
    },
  )

  test('its own timeout: the outcome is unknown, says the error, and the compensation is told so', async () => {
    const account = unique('a')
    const ledger = unique('told')
    const tell = `{ tell: { ${createEntry("'${ .outcome_unknown }'", ledger)} } }`
    const pay = server.pay(account, 60_000).replace('compensate: [', `compensate: [${tell}, `)
    const run = await executions.ended(
      await executions.start(await executions.publish(`  - pay: { ${pay}, timeout: { after: PT0.5S } }`)),
    )
    expect(run).toMatchObject({ status: 'faulted', error: { status: 408, code: 'outcome_unknown' } })
    expect(await executions.ledger(ledger)).toEqual([true])
    expect(run.compensation).toEqual({ undone: ['/do/0/pay#0'], failures: [] })
    expect(server.refunds).toContain(account)
  })
})

test('150 calls when one branch faults: every charge is refunded, and none arrives after the end', async () => {
  const of = unique('many')
  const branches = Array.from({ length: 150 }, (_, n) => `{ b${n}: { ${server.pay(`${of}-${n}`, 20)} } }`)
  const tasks = `  - f: { fork: { branches: [{ ${bad(200)} }, ${branches.join(', ')}] } }`
  const run = await executions.ended(await executions.start(await executions.publish(tasks)), 120_000)
  const charges = server.charges.filter(({ account }) => account.startsWith(`${of}-`))
  const refunds = server.refunds.filter((account) => account.startsWith(`${of}-`))
  expect(refunds.toSorted()).toEqual(charges.map(({ account }) => account).toSorted())
  expect(new Set(refunds).size).toBe(refunds.length)
  expect(charges.filter(({ atMs }) => atMs > Date.parse(run.ended_at))).toEqual([])
  expect(run.compensation?.undone.length ?? 0).toBe(refunds.length)
  expect(run.compensation?.failures ?? []).toEqual([])
  const entries = run.steps.filter(({ name }: { name: string }) => /^b\d+$/.test(name))
  const completed = entries.filter(({ status }: { status: string }) => status === 'completed')
  expect([entries.length, completed.length]).toEqual([150, charges.length])
})

test('call without compensate that is cancelled while it is under way: it is ended, and its step says that its outcome is unknown', async () => {
  const account = unique('a')
  const id = await executions.start(
    await executions.publish(`  - pay: { ${server.pay(account, 60_000, { compensated: false })} }`),
  )
  await server.arrived(account)
  expect((await executions.send(id, 'cancel')).status).toBe(202)
  const run = await executions.ended(id)
  expect(run).toMatchObject({ status: 'cancelled', error: null, compensation: null })
  expect(stepOf(run, 'pay')).toMatchObject({ status: 'cancelled', error: { code: 'outcome_unknown' } })
})

test('workflow that ends while a call waits for its token: the call is not sent, while that of another execution is', async () => {
  const authority = `http://${server.host}`
  const oauth2 = `{ oauth2: { authority: '${authority}', endpoints: { token: /token }, grant: client_credentials, client: { id: a, secret: b } } }`
  const [cancelled, other] = await Promise.all(
    [unique('gone'), unique('other')].map(async (account) => {
      const endpoint = `{ uri: '${authority}/charge/${account}', authentication: ${oauth2} }`
      const flow = await executions.publish(
        `  - pay: { call: http, with: { method: post, endpoint: ${endpoint} } }`,
      )
      return { account, id: await executions.start(flow) }
    }),
  )
  if (cancelled === undefined || other === undefined) throw new Error('two')
  await eventually(async () => (server.tokens.length >= 2 ? true : undefined))
  const { workflow_id } = await executions.read(cancelled.id)
  await withRawClient(({ workflow }) => workflow.getHandle(workflow_id).terminate())
  await executions.ended(cancelled.id)
  for (const answer of server.tokens.splice(0)) answer()
  expect(await executions.ended(other.id)).toMatchObject({ status: 'completed' })
  await server.arrived(other.account)
  expect(server.charges.filter(({ account }) => account === cancelled.account)).toEqual([])
})
