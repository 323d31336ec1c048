/** Live queries where the state before a change, or the document itself, is not known, and of documents that expire. */

import { randomUUID } from 'node:crypto'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { changesIn, openLive } from '../../support/clients/live-copy.ts'
import {
  closeSubscriptions,
  messages,
  type ReceivedEvent,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import { transaction } from '../../support/fixtures/outbox.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const RED = { user: { read: { team: 'red' } } }

async function created(path: string, body: object, as: Caller = ws.service): Promise<string> {
  const made = await createIn(path, as, body)
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}

interface OldRow {
  readonly verb: 'updated' | 'deleted'
  readonly id: string
  readonly document?: object
}

/** Writes a change as build 0.1.0 does in a rolling upgrade: without the state before, or the deleted document. */
async function noteOld(collection: string, { verb, id, document }: OldRow): Promise<void> {
  const client = await transaction(ws)
  const values = [collection, verb, id, document === undefined ? null : JSON.stringify(document)]
  const text = `insert into tenon.outbox (collection, verb, document_id, version, document, anon_reads, user_reads)
    values ($1, $2, $3, 2, $4::json, true, true)`
  try {
    await client.query(text, values)
    await client.query('commit')
  } finally {
    await client.end()
  }
}

const told = (received: readonly ReceivedEvent[]) =>
  changesIn(received).map(({ event, data }) => [event, data.id])
const toldOf = (received: readonly ReceivedEvent[], id: string) =>
  eventually(async () => (told(received).some(([, one]) => one === id) ? true : undefined))

test('user under a rule, no filter, a change without the state before: told only if the document is readable', async () => {
  const { at: path, collection } = await declaredWithRules(ws, RED)
  const live = await openLive(await userToken(ws, 'mia'), path)
  const [hidden, shown] = [randomUUID(), randomUUID()]
  await noteOld(collection, { verb: 'updated', id: hidden, document: { title: 'b', team: 'blue' } })
  await noteOld(collection, { verb: 'updated', id: shown, document: { title: 'r', team: 'red' } })
  await toldOf(live.received, shown)
  await noteOld(collection, { verb: 'updated', id: shown, document: { title: 'r', team: 'blue' } })
  await eventually(async () => (told(live.received).length >= 2 ? true : undefined))
  expect(told(live.received)).toEqual([
    ['enter', shown],
    ['leave', shown],
  ])
})

test('event that does not have its document: told to nobody who is selected by the document', async () => {
  const { at: path, collection } = await declaredWithRules(ws, { user: { read: { team: { eq: null } } } })
  const mia = await userToken(ws, 'mia')
  const lives = [await openLive(mia, path), await openLive(ws.service, path)]
  const feed = await subscribeToEvents(mia, `topic=collections.${collection}.*`)
  await noteOld(collection, { verb: 'updated', id: randomUUID() })
  const whole = randomUUID()
  await noteOld(collection, { verb: 'updated', id: whole, document: { title: 'x' } })
  for (const { received } of lives) {
    await toldOf(received, whole)
    expect(told(received).map(([, id]) => id)).toEqual([whole])
  }
  await receivedAtLeast(feed, 1)
  expect(messages(feed).map(({ data }) => data.data.id)).toEqual([whole])
})

test('deletion that is judged by a rule of later: told of a document that was shown, and of no other', async () => {
  const { at: path, collection, schemaId } = await declaredWithRules(ws, { user: { read: true } })
  const { received } = await openLive(await userToken(ws, 'mia'), path)
  const shown = await created(path, { title: 'x', team: 'blue' })
  await toldOf(received, shown)
  const { body } = await call('GET', `/v1/schemas/${schemaId}`, { as: ws.operator })
  const { schema, mode } = body
  const changed = await call('PUT', `/v1/schemas/${schemaId}`, {
    as: ws.operator,
    body: { schema, mode, access: RED },
  })
  expect(changed.status, JSON.stringify(changed.body)).toBe(200)
  // The open stream applies the new rule once it does not tell of a blue document any more.
  await eventually(async () => {
    const blue = await created(path, { team: 'blue' })
    await toldOf(received, await created(path, { team: 'red' }))
    return told(received).some(([, id]) => id === blue) ? undefined : true
  })
  const count = told(received).length
  for (const id of [randomUUID(), shown]) await noteOld(collection, { verb: 'deleted', id })
  const last = await created(path, { team: 'red' })
  await toldOf(received, last)
  expect(told(received).slice(count)).toEqual([
    ['delete', shown],
    ['enter', last],
  ])
})
