/** Stores that are there and fail: each request is repeated under its key until it is acknowledged; then a ledger compares. */

import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, expect, inject, test } from 'vitest'
import { send } from '../support/clients/idempotency.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { type StoreFault, startRefusingStore } from '../support/servers/refusing-store.ts'
import { type Fault, startStatementProxy } from '../support/servers/statement-proxy.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'
import type { Running } from '../support/stack/start.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

const LANES = 4
const BETWEEN_MS = 20
/** Acknowledged between two faults. */
const STEADY = 8

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})

/** What clients know of a store that fails. */
class Ledger {
  readonly acknowledged: number[] = []
  readonly refusals: Reply[] = []
  /** Answers that no client may get. */
  readonly wrong: string[] = []

  note(n: number, reply: Reply): boolean {
    const { status, body } = reply
    if (status < 300) this.acknowledged.push(n)
    else if (status === 503) this.refusals.push(reply)
    else if (body.code !== 'idempotency_in_flight') this.wrong.push(`${n}: ${status} ${JSON.stringify(body)}`)
    return status < 300
  }
}

/** Sends numbered requests, each until it is acknowledged, while each fault lasts until it has refused some. */
async function loadBeside<T>(
  faults: readonly T[],
  inject: (fault: T | undefined) => void,
  request: (n: number) => Promise<Reply>,
): Promise<{ ledger: Ledger; refusedBy: Map<T, Reply> }> {
  const ledger = new Ledger()
  const refusedBy = new Map<T, Reply>()
  let isOver = false
  const lane = async (first: number) => {
    for (let n = first; !isOver; n += LANES) {
      while (!ledger.note(n, await request(n))) await pause(BETWEEN_MS)
      await pause(BETWEEN_MS)
    }
  }
  const lanes = Promise.all(Array.from({ length: LANES }, (_, n) => lane(n)))
  const steady = async () => {
    const before = ledger.acknowledged.length
    await eventually(async () => ledger.acknowledged.length >= before + STEADY || undefined, 60_000)
  }
  for (const fault of faults) {
    await steady()
    const before = ledger.refusals.length
    inject(fault)
    await eventually(async () => ledger.refusals.length > before || undefined, 60_000)
    refusedBy.set(fault, ledger.refusals.at(-1) as Reply)
    inject(undefined)
  }
  await steady()
  isOver = true
  await lanes
  return { ledger, refusedBy }
}

/** Compares the ledger with what is stored, and prints both. */
function expectStoredOnce(
  what: string,
  { acknowledged, refusals, wrong }: Ledger,
  stored: readonly number[],
) {
  const once = new Set(stored)
  console.log(
    `Ledger of ${what}: ${acknowledged.length} acknowledged, ${stored.length} stored, ${stored.length - once.size} doubled, ${refusals.length} refused`,
  )
  expect({
    wrong,
    lost: acknowledged.filter((n) => !once.has(n)),
    doubled: stored.length - once.size,
  }).toEqual({
    ...{ wrong: [], lost: [], doubled: 0 },
  })
  expect(stored.toSorted((a, b) => a - b)).toEqual(acknowledged.toSorted((a, b) => a - b))
}

const FAULTS: readonly StoreFault[] = ['error', 'late error']

test('object store that answers 500, without or with the work done: 503 with its name, documents go on, each acknowledged object is there', async () => {
  const store = await startRefusingStore(new URL(inject('tenon').env['S3_ENDPOINT'] ?? ''))
  const node = await startInProcessNode({ S3_ENDPOINT: store.url, S3_STS_ENDPOINT: store.url })
  const as = workspace.service
  const pathOf = (n: number) => `/v1/objects/${bucket}/faulty/${n}`
  const documents = new Set<number>()
  try {
    const { ledger, refusedBy } = await loadBeside(
      FAULTS,
      (fault) => {
        store.fault = fault
      },
      async (n) => {
        const [reply, document] = await Promise.all([
          call('PUT', pathOf(n), { as, at: node.at, body: { n } }),
          call('POST', '/v1/collections/beside/documents', { as, at: node.at, body: { n } }),
        ])
        documents.add(document.status)
        return reply
      },
    )
    for (const { body, headers } of refusedBy.values())
      expect([body.code, body.part, headers.has('retry-after')]).toEqual([
        'dependency_unavailable',
        's3',
        true,
      ])
    expect([...documents]).toEqual([201])
    const listed = await call('GET', `/v1/objects/${bucket}?prefix=faulty%2F&page[size]=200`, { as })
    const keys: string[] = listed.body.data.map(({ key }: { key: string }) => key)
    const stored = await Promise.all(
      keys.map(async (key) => {
        const { body } = await call('GET', `/v1/objects/${bucket}/${key}`, { as })
        expect(body).toEqual({ n: Number(key.split('/').at(-1)) })
        return body.n as number
      }),
    )
    expectStoredOnce('an object store that fails', ledger, stored)
  } finally {
    await node.close()
    store.close()
  }
})

/** PostgreSQL fails with a code, drops connections before or after a statement, or takes none: at every third message, so that some pass. */
const DATABASE_FAULTS: readonly Fault[] = [
  { error: '53100' },
  { error: '53300' },
  'cut',
  'mute cut',
  'death',
  'mute death',
]

test('PostgreSQL that is full, has no connection left, restarts or is gone in the middle of statements: 503, each acknowledged document is there once', async () => {
  const proxy = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '')
  const node = await startInProcessNode({ DATABASE_APP_URL: proxy.url })
  const collection = '/v1/collections/faulty/documents'
  const create = (n: number) => send('POST', workspace.service, `faulty-${n}`, { n }, collection, node.at)
  try {
    const { ledger, refusedBy } = await loadBeside(
      DATABASE_FAULTS,
      (fault) => proxy.script((message) => (message % 3 === 0 ? fault : undefined)),
      create,
    )
    for (const { body, headers } of refusedBy.values())
      expect([body.code, body.part, headers.has('retry-after')]).toEqual([
        'dependency_unavailable',
        'postgres',
        true,
      ])
    const [full = { error: '' }] = DATABASE_FAULTS
    expect(refusedBy.get(full)?.body.detail).toContain('is full: it takes no writes')
    expectStoredOnce('a PostgreSQL that fails', ledger, await storedNumbers(collection, node.at))
  } finally {
    await node.close()
    proxy.close()
  }
})

async function storedNumbers(path: string, at: Running): Promise<number[]> {
  const found: number[] = []
  for (let after: string | null = ''; after !== null; ) {
    const page: string = after && `&page[after]=${after}`
    const { body } = await call('GET', `${path}?page[size]=200${page}`, { as: workspace.service, at })
    found.push(...body.data.map(({ n }: { n: number }) => n))
    after = body.page.next
  }
  return found
}
