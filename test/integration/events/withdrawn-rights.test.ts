/** A stream ends soon after its subscriber has lost the right to it, and an event after `ready` is never missed. */

import { afterEach, describe, expect, test } from 'vitest'
import {
  closeSubscriptions,
  endOf,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

afterEach(closeSubscriptions)

interface World {
  readonly workspace: TestWorkspace
  readonly keys: ReturnType<typeof keysOf>
  /** A key that may read, and its id. */
  readonly key: { readonly id: string; readonly as: Caller }
  readonly user: Caller
  /** Changes who may read the collection. */
  readonly allow: (access: object) => Promise<unknown>
}

type Withdrawal = readonly [string, { as: (world: World) => Caller; code: string; withdraw: Withdraw }]
type Withdraw = (world: World) => Promise<unknown>

const OPEN = { anon: { read: true }, user: { read: true } }
const byKey = ({ key }: World) => key.as
const WITHDRAWALS: readonly Withdrawal[] = [
  ['key revoked', { as: byKey, code: 'api_key_revoked', withdraw: ({ keys, key }) => keys.revoke(key.id) }],
  [
    'key narrowed',
    {
      as: byKey,
      code: 'insufficient_scope',
      withdraw: ({ keys, key }) => keys.change(key.id, { scopes: ['objects:read'] }),
    },
  ],
  [
    '`access.anon.read` set to false',
    {
      as: ({ workspace }) => workspace.anon,
      code: 'forbidden',
      withdraw: ({ allow }) => allow({ ...OPEN, anon: { read: false } }),
    },
  ],
  [
    'rule for users removed',
    { as: ({ user }) => user, code: 'forbidden', withdraw: ({ allow }) => allow({ anon: { read: true } }) },
  ],
]

describe('right withdrawn while subscribed', () => {
  test.each(WITHDRAWALS)(
    '%s: `end` with the reason within 5 s, and no further change',
    async (_what, row) => {
      const workspace = await createTestWorkspace()
      const { at, collection, schemaId } = await declaredWithRules(workspace, OPEN)
      const keys = keysOf(workspace)
      const { id, key } = await keys.make({ scopes: ['collections:read', 'events:read'] })
      const allow = async (access: object) => {
        const reply = await call('PUT', `/v1/schemas/${schemaId}`, {
          as: workspace.operator,
          body: { access },
        })
        expect(reply.status).toBe(200)
      }
      const user = await userToken(workspace, 'mia')
      const world: World = { workspace, keys, key: { id, as: { apikey: key } }, user, allow }
      const topic = `topic=collections.${collection}.*`
      const frames = await subscribeToEvents(row.as(world), topic)
      const witness = await subscribeToEvents(workspace.service, topic)
      await createIn(at, workspace.service, { title: 'before' })
      await Promise.all([frames, witness].map((each) => receivedAtLeast(each, 1)))

      const elapsedMs = stopwatch()
      await row.withdraw(world)
      const code = await endOf(frames)
      expect(elapsedMs()).toBeLessThan(5_000)
      expect(code).toBe(row.code)
      await createIn(at, workspace.service, { title: 'after' })
      await receivedAtLeast(witness, 2)
      expect(messages(frames)).toHaveLength(1)
    },
  )

  test('rule narrowed to other documents: the next change is not delivered, and those that it admits are', async () => {
    const workspace = await createTestWorkspace()
    const { at, collection, schemaId } = await declaredWithRules(workspace, OPEN)
    const user = await userToken(workspace, 'mia')
    const topic = `topic=collections.${collection}.*`
    const frames = await subscribeToEvents(user, topic)
    const access = { user: { read: { status: 'open' } } }
    const changed = await call('PUT', `/v1/schemas/${schemaId}`, { as: workspace.operator, body: { access } })
    expect(changed.status).toBe(200)
    await createIn(at, workspace.service, { status: 'closed' })
    const { body: admitted } = await createIn(at, workspace.service, { status: 'open' })
    const [first] = await receivedAtLeast(frames, 1)
    expect(JSON.stringify(first?.data)).toContain(admitted.id)
  })
})

test('event published on `ready`: 200 times: received each time', async () => {
  const workspace = await createTestWorkspace()
  const rounds = Array.from({ length: 200 }, (_, n) => n)
  for (const n of rounds) {
    const frames = await subscribeToEvents(workspace.service, `topic=ready.${n}`)
    const body = { topic: `ready.${n}`, data: n }
    expect((await call('POST', '/v1/events/publish', { as: workspace.service, body })).status).toBe(202)
    const [event] = await receivedAtLeast(frames, 1)
    expect(event?.data.data).toBe(n)
    closeSubscriptions()
  }
})
