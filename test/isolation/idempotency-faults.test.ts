/**
 * Operations that take a key meet a fault at a message to PostgreSQL, and are sent again with the key: the rows of their
 * tenant are those of one effect, and each acknowledgement says the same. The suite runs some of them, other ones each day
 * (`TENON_FAULTS_SEED`, the number of the day, repeats one), and the soak all.
 */

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { inWorkspace } from '../support/clients/browser.ts'
import { send } from '../support/clients/idempotency.ts'
import { mailsTo, mailTo } from '../support/clients/mails.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspaceWithStorage as createTestWorkspace,
  eventually,
  operator,
  type Reply,
  tokenOf,
  unique,
} from '../support/fixtures/tenants.ts'
import { askUntilAnswered } from '../support/fixtures/write-ledger.ts'
import { type DnsServer, startDnsServer } from '../support/servers/dns-server.ts'
import { type Fault, type StatementProxy, startStatementProxy } from '../support/servers/statement-proxy.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'
import { repeated } from '../support/stack/soak.ts'
import { setSuspended, trialsOf } from './idempotency-faults-trials.ts'
import { boundIn, KEPT, KEYED, writtenByTool } from './keyed-operations.ts'
import { createSweepResources, ROWS, type World } from './sweep-rows.ts'

let proxy: StatementProxy
let dns: DnsServer
let node: Node
let world: World
let countRows: () => Promise<Counts>
beforeAll(async () => {
  proxy = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  dns = await startDnsServer()
  node = await startInProcessNode({ DATABASE_APP_URL: proxy.url, TENON_DNS_SERVERS: dns.address })
  world = await createSweepResources(await createTestWorkspace())
  const { operator: as, workspaceId } = world.workspace
  const { data } = (await call('GET', `/v1/workspaces/${workspaceId}/hosts`, { as })).body
  for (const { record } of data) dns.texts.set(record.name, [record.value])
  countRows = await rowCounter(world.workspace.tenantId)
})
afterAll(async () => {
  proxy?.script()
  await node?.close()
  await dns?.close()
  proxy?.close()
})

type Counts = Readonly<Record<string, number>>

/** Written for each attempt, such as the blobs that it leaves to the sweeper, or by other processes at their own time. */
const UNCOUNTED =
  /^(idempotency|audit.*|outbox|meters|execution_(steps|events)|.*_offsets|function_run_logs|mcp_call.*|payload_keys|quotas|buckets|unused_blobs)$/

/** The room that a request whose process died has reserved for its bytes is free when its lease ends. */
const COUNTED_IF: Readonly<Record<string, string>> = { object_uploads: 'and key is not null' }

/** @returns a function that counts the rows of the tenant in each table */
async function rowCounter(tenantId: string) {
  const columns = await asSuperuser<{ name: string }>(
    `select table_name as name from information_schema.columns join information_schema.tables using (table_schema, table_name)
     where table_schema = 'tenon' and table_type = 'BASE TABLE' and column_name = 'tenant_id'`,
  )
  const tables = columns.map(({ name }) => name).filter((name) => !UNCOUNTED.test(name))
  const counts = tables.map(
    (name) =>
      `select '${name}' as name, count(*) as n from tenon.${name} where tenant_id = $1 ${COUNTED_IF[name] ?? ''}`,
  )
  return async (): Promise<Counts> => {
    const [row] = await asSuperuser<{ counts: Counts }>(
      `select json_object_agg(name, n) as counts from (${counts.join(' union all ')}) counted`,
      [tenantId],
    )
    return row?.counts ?? {}
  }
}

const difference = (before: Counts, after: Counts): Counts =>
  Object.fromEntries(
    Object.entries(after).flatMap(([name, n]) =>
      n === before[name] ? [] : [[name, n - (before[name] ?? 0)]],
    ),
  )

/** 57014 is a timeout, 40001 and XX000 are errors of the server that no code expects. */
const FAULTS: readonly Fault[] = [
  ...(['death', 'mute death', 'cut'] as const),
  ...['XX000', '57014', '40001'].map((error) => ({ error })),
]

type Faults = Readonly<Record<number, Fault>>

/** Sends the request with the faults, then again until it is answered. @param settle awaited between */
async function sendAgain(
  ask: () => Promise<Reply>,
  input: object,
  faults: Faults,
  settle?: () => Promise<unknown>,
) {
  proxy.script(faults)
  const first = await ask()
  const { messages, applied } = proxy
  proxy.script()
  await settle?.()
  const last = await askUntilAnswered(world, ask, input)
  return { first, last, messages, applied }
}

/** What a client knows of the effect. An operation that is not kept may say of the same effect when it was repeated. */
const known = (name: string, { status, body }: Reply) =>
  status >= 300
    ? [status, body.code]
    : [status, KEPT.includes(name) ? body : (body.id ?? body.kid ?? body.run_id ?? writtenByTool(body))]

const SEED = Number(process.env['TENON_FAULTS_SEED'] ?? Math.floor(Date.now() / 86_400_000))

const numberOf = (name: string) => createHash('sha256').update(`${SEED}/${name}`).digest().readUInt32BE()

/** One case, or two if the effect and the output are one transaction. The soak has all. */
function chosenOf<T>(cases: readonly T[], name: string): readonly T[] {
  const chosen = (KEPT.includes(name) ? [0, 1] : [0]).flatMap(
    (n) => cases[(numberOf(name) + n * 37) % cases.length] ?? [],
  )
  return repeated(1, 2) === 1 ? chosen : cases
}

/** Admins have claims of their own tenant or workspace, which operators have not. */
const AS_ADMINS = [
  ['tenant_admin', 'api_key.create'],
  ['workspace_admin', 'account.create'],
  ['workspace_admin', 'flow.create'],
] as const

const byNumber = [...KEYED].sort((a, b) => numberOf(a.name) - numberOf(b.name))
const CHOSEN = new Set(byNumber.slice(0, repeated(12, KEYED.length)))
const OPERATIONS = [
  ...AS_ADMINS.flatMap(([role, name]) =>
    KEYED.filter((operation) => operation.name === name).map((operation) => ({ role, name, operation })),
  ),
  // Quotas come last: they limit the others.
  ...KEYED.filter((operation) => CHOSEN.has(operation))
    .sort((a, b) => Number(a.name.startsWith('quota')) - Number(b.name.startsWith('quota')))
    .map((operation) => {
      const role = operation.domain === 'data_access' ? ('service' as const) : ('operator' as const)
      return { role, name: operation.name, operation }
    }),
]
const RUNS = OPERATIONS.flatMap((run) =>
  trialsOf(run.name).map((trial) => ({ ...run, trial, title: trial.title ?? 'with a key' })),
)

async function callerIn(role: (typeof RUNS)[number]['role']): Promise<Caller> {
  const { tenantId: tenant_id, workspaceId: workspace_id, service, operator } = world.workspace
  if (role === 'service') return service
  if (role === 'operator') return operator
  const claims = { sub: `acct_${unique('x')}`, roles: [role], tenant_id }
  return tokenOf(role === 'workspace_admin' ? { ...claims, workspace_id } : claims)
}

/**
 * Waits until the node knows the caller and sends nothing of its own, such as the audit entry of an earlier request: then the first
 * message is the claim, and all messages are those of the request.
 */
const awaitQuiet = (as: Caller) =>
  eventually(async () => {
    const before = proxy.messages
    const { status } = await call('GET', '/v1/me', { as, at: node.at })
    return (status === 200 && proxy.messages === before) || undefined
  })

describe.each(RUNS)('$name as $role, $title', ({ name, role, operation: { http }, trial }) => {
  beforeAll(async () => {
    // The soak takes longer than a token is a recent proof.
    world = { ...world, workspace: { ...world.workspace, operator: await operator() } }
  })
  afterAll(async () => {
    if (/^(tenant|workspace)\.(suspend|resume)$/.test(name)) await setSuspended(world, false)
  })
  type Attempt = Awaited<ReturnType<typeof attempt>>
  const attempt = async (faults: Faults) => {
    const target = { ...world, ...(await trial.prepare?.(world)) }
    const as = await callerIn(role)
    const path = (trial.path ?? ROWS[name]?.path)?.(target) ?? ''
    const [key, body] = [unique('k'), ROWS[name]?.body?.(target)]
    const ask = () => send(http.method, as, key, body, path, node.at)
    await awaitQuiet(as)
    const before = await countRows()
    const input = { ...boundIn(http.path, path), ...(body as object) }
    const sent = await sendAgain(ask, input, faults, () => trial.settle?.(target) ?? Promise.resolve())
    const repeat = await ask()
    const effect = sent.last.status < 300 ? await trial.effect?.(target, sent.last) : sent.last.body.code
    return { ...sent, repeat, effect, rows: difference(before, await countRows()) }
  }

  /** An attempt in which the fault has happened: one with fewer messages, since the node knew more by then, has it at its last. */
  const disturbed = async (at: number, fault: Fault): Promise<Attempt & { readonly at: number }> => {
    const tried = await attempt({ [at]: fault })
    if (tried.applied.length > 0) return { ...tried, at }
    expect(tried.messages).toBeLessThan(at)
    return disturbed(tried.messages, fault)
  }

  test('a fault at a message, then repeated with the key: one effect, one reply', async () => {
    const usual = await attempt({})
    // A refusal without a fault would say nothing of the effect.
    expect(usual.last.status < 300 ? 'done' : usual.last.body.code).toBe('done')
    expect(usual.effect).toEqual(trial.expected)
    const all = Array.from({ length: usual.messages }, (_, n) =>
      FAULTS.map((fault) => ({ at: n + 1, fault })),
    )
    for (const { at, fault } of chosenOf(all.flat(), name)) {
      const met = await disturbed(at, fault)
      const { first, last, repeat, rows, effect } = met
      const told = { SEED, name, at: met.at, of: usual.messages, fault, first: first.status }
      // The result of a tool may be the error itself: the tool has done nothing then.
      const expected = last.body?.is_error === true ? {} : usual.rows
      expect({ ...told, status: last.status, effect, rows }).toEqual({
        ...{ ...told, status: usual.last.status, effect: trial.expected, rows: expected },
      })
      if (first.status < 300) expect([told, known(name, last)]).toEqual([told, known(name, first)])
      expect([told, known(name, repeat)]).toEqual([told, known(name, last)])
    }
  })
})

test('account.create with mail: an error at each message, then repeated with the key: one mail, since one link was stored', async () => {
  const as = await callerIn('operator')
  const invite = async (faults: Readonly<Record<number, Fault>>) => {
    const [key, email] = [unique('k'), `${unique('mail')}@example.test`]
    const body = { ...inWorkspace(world.workspace), role: 'service', email, mail: true }
    await awaitQuiet(as)
    const ask = () => send('POST', as, key, body, '/v1/accounts', node.at)
    const { last, messages, applied } = await sendAgain(ask, body, faults)
    expect([last.status, last.body.invitation_url]).toEqual([201, null])
    return { email, messages, applied }
  }
  const { messages } = await invite({})
  const emails: string[] = []
  for (let at = 1; at <= messages; at++) {
    const fault = { error: 'XX000' }
    const { email, applied, ...sent } = await invite({ [at]: fault })
    expect([at, applied]).toEqual([at, sent.messages < at ? [] : [fault]])
    emails.push(email)
  }
  // Mails leave in the order in which they were handed over.
  await mailTo((await invite({})).email, 'Set the password')
  const counts = await Promise.all(emails.map(async (email) => (await mailsTo(email, '')).length))
  expect(counts).toEqual(emails.map(() => 1))
})
