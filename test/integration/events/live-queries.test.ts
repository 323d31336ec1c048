/** Live queries: a list and the stream of its changes, which together are the result of the query at any time. */

import { afterEach, beforeAll, expect, inject, test } from 'vitest'
import { changesIn, openLive, readList, sorted, toldAtLast, toldIn } from '../../support/clients/live-copy.ts'
import {
  closeSubscriptions,
  endOf,
  receivedAtLeast,
  subscribeToEvents,
  subscribeToStream,
} from '../../support/clients/sse.ts'
import { createIn, declaredWithRules, TICKET_PROPERTIES } from '../../support/fixtures/access-rules.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { startHoldingProxy } from '../../support/servers/holding-proxy.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { repeated } from '../../support/stack/soak.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const put = (path: string, id: string, body: object, as: Caller = ws.service) =>
  call('PUT', `${path}/documents/${id}`, { as, body })
const remove = (path: string, id: string) => call('DELETE', `${path}/documents/${id}`, { as: ws.service })

/** Waits until so many changes of the collection are in the stream, so that a list comes after them. */
async function relayed(path: string, count: number): Promise<void> {
  const topic = `collections.${path.split('/').at(-1)}.*`
  await receivedAtLeast(
    await subscribeToEvents(ws.service, `topic=${topic}`, { 'last-event-id': '0-0' }),
    count,
  )
}

async function created(path: string, body: object, as: Caller = ws.service): Promise<string> {
  const made = await createIn(path, as, body)
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}

test('document enters the result, changes, leaves it and is deleted: each is told', async () => {
  const path = `/v1/collections/${unique('live')}`
  const first = await created(path, { n: 1, open: true })
  const other = await created(path, { n: 2, open: false })
  await relayed(path, 2)
  const live = await openLive(ws.service, path, 'open=eq.true')
  expect([...live.now().keys()]).toEqual([first])
  await put(path, other, { open: true })
  await put(path, other, { more: 1 })
  await put(path, other, { open: false })
  await put(path, other, { more: 2 })
  await created(path, { n: 3, open: false })
  const last = await created(path, { n: 4, open: true })
  await remove(path, last)
  await toldAtLast(live.received, 'delete')
  expect(toldIn(live.received)).toEqual(['enter 2', 'update 2', 'leave', 'enter 4', 'delete'])
  const [entered, , left] = changesIn(live.received)
  const { body } = await call('GET', `${path}/documents/${other}`, { as: ws.service })
  expect(entered?.data.document).toEqual({
    ...{ id: other, n: 2, open: true, _version: 2 },
    _created_at: body._created_at,
    _updated_at: expect.any(String),
  })
  expect(left?.data).toEqual({ id: other, version: 4 })
  expect(sorted(live.now())).toEqual(sorted((await readList(ws.service, path, 'open=eq.true')).documents))
})

test('live query without a filter, with selected fields: tells of all documents, and of those fields alone', async () => {
  const path = `/v1/collections/${unique('live')}`
  const id = await created(path, { n: 1, secret: 's' })
  await relayed(path, 1)
  const live = await openLive(ws.service, path, 'select=n')
  await put(path, id, { n: 2 })
  await created(path, { n: 3, secret: 's' })
  await toldAtLast(live.received, 'enter 3')
  expect(toldIn(live.received)).toEqual(['update 2', 'enter 3'])
  expect(changesIn(live.received)[0]?.data).toEqual({ id, version: 2, document: { id, n: 2 } })
})

test('filters by system fields: `_created_at`, `_updated_at`, `_version` and `id` of a changed document', async () => {
  const path = `/v1/collections/${unique('live')}`
  const id = await created(path, { n: 1 })
  await relayed(path, 1)
  const { body } = await call('GET', `${path}/documents/${id}`, { as: ws.service })
  const at = encodeURIComponent(body._created_at)
  const queries = [`_created_at=lte.${at}`, `_updated_at=lte.${at}`, '_version=lt.3', `id=eq.${id}`]
  const all = await Promise.all(queries.map((query) => openLive(ws.service, path, query)))
  for (const n of [2, 3]) await put(path, id, { n })
  const told = [['enter 2', 'update 3'], ['leave'], ['enter 2', 'leave'], ['enter 2', 'update 3']]
  for (const [index, live] of all.entries()) {
    await toldAtLast(live.received, told[index]?.at(-1) ?? '')
    expect(toldIn(live.received), queries[index]).toEqual(told[index])
  }
})

test('operators, batches and changes of many documents: are told as other changes are', async () => {
  const path = `/v1/collections/${unique('live')}`
  const ids: string[] = []
  for (const n of [1, 2, 3]) ids.push(await created(path, { n, open: true }))
  await relayed(path, 3)
  const live = await openLive(ws.service, path, 'open=eq.true')
  const send = async (method: string, at: string, body: object, headers = {}) => {
    const { status, body: reply } = await call(method, `${path}${at}`, { as: ws.service, body, headers })
    expect(status, JSON.stringify(reply)).toBeLessThan(300)
  }
  const [first = '', second = '', third = ''] = ids
  const operators = { 'content-type': 'application/vnd.tenon.ops+json' }
  await send('PATCH', `/documents/${first}`, { inc: { n: 10 } }, operators)
  await send('POST', '/batch', {
    ops: [
      { op: 'update', id: second, data: { open: false } },
      { op: 'delete', id: third },
    ],
  })
  await send('POST', '/update-many', { filter: { open: false }, data: { open: true } }, { prefer: 'wait=30' })
  await send('POST', '/delete-many', { filter: { n: 11 } }, { prefer: 'wait=30' })
  await eventually(async () => (changesIn(live.received).length >= 5 ? true : undefined))
  expect(toldIn(live.received)).toEqual(['enter 11', 'leave', 'delete', 'enter 2', 'delete'])
  expect([...live.now().keys()]).toEqual([second])
})

const OWN = {
  user: {
    read: { $or: [{ _owner: '$user.id' }, { team: '$user.claims.team' }] },
    create: true,
    update: true,
  },
}

test('user under rules: a document that is no longer readable leaves without its content; hidden ones are not told of', async () => {
  const { at: path } = await declaredWithRules(ws, OWN)
  const [mia, ben] = [
    await userToken(ws, 'mia', { team: 'red' }),
    await userToken(ws, 'ben', { team: 'blue' }),
  ]
  const live = await openLive(mia, path, 'status=eq.open')
  const bens = await created(path, { title: 'b', status: 'open', level: 1, team: 'blue' }, ben)
  await put(path, bens, { level: 2 })
  await put(path, bens, { team: 'red' })
  await put(path, bens, { level: 3, title: 'with  blanks anon user' })
  await put(path, bens, { status: 'closed' })
  await put(path, bens, { level: 4 })
  await put(path, bens, { status: 'open' })
  await put(path, bens, { team: 'blue', title: 'secret' })
  await put(path, bens, { level: 5 })
  await remove(path, bens)
  const own = await created(path, { title: 'm', status: 'open' }, mia)
  await eventually(async () => (live.now().has(own) ? true : undefined))
  const told = changesIn(live.received).map(({ event, data }) => [event, data.version])
  expect(told).toEqual([
    ...[
      ['enter', 3],
      ['update', 4],
      ['leave', 5],
      ['enter', 7],
      ['leave', 8],
    ],
    ['enter', 1],
  ])
  expect(changesIn(live.received)[4]?.data).toEqual({ id: bens, version: 8 })
  expect(JSON.stringify(live.received)).not.toContain('secret')
  // The service sees the states before, too, and is told exactly.
  const all = await openLive(ws.service, path, 'status=eq.open')
  await put(path, own, { level: 1 })
  await put(path, own, { status: 'closed' })
  await put(path, own, { level: 2 })
  await put(path, own, { status: 'open' })
  await eventually(async () => (changesIn(all.received).length >= 3 ? true : undefined))
  expect(changesIn(all.received).map(({ event }) => event)).toEqual(['update', 'leave', 'enter'])
})

test('subscriber connects again after its last id: a document that left meanwhile leaves', async () => {
  const { at: path } = await declaredWithRules(ws, OWN)
  const mia = await userToken(ws, 'mia')
  const ids = [await created(path, { title: 'a' }, mia), await created(path, { title: 'b' }, mia)]
  await relayed(path, 2)
  const { position, documents } = await readList(mia, path, 'title=in.(a,b)')
  expect([...documents.keys()]).toEqual(ids)
  await put(path, ids[0] ?? '', { title: 'c' })
  await remove(path, ids[1] ?? '')
  const again = await subscribeToStream(mia, `${path}/subscribe?title=in.(a,b)`, {
    'last-event-id': position,
  })
  await eventually(async () => (changesIn(again).length >= 2 ? true : undefined))
  expect(changesIn(again).map(({ event, data }) => [event, data.id])).toEqual([
    ['leave', ids[0]],
    ['delete', ids[1]],
  ])
})

test('list while others write: with the subscription from its position nothing is missed', async () => {
  const path = `/v1/collections/${unique('load')}`
  const ids: string[] = []
  let isOver = false
  const writer = async (n: number) => {
    for (let turn = n; !isOver; turn += 1) {
      if (turn % 3 === 0 || ids.length === 0) ids.push(await created(path, { n: turn, open: turn % 2 === 0 }))
      else if (turn % 7 === 0) await remove(path, ids.splice(turn % ids.length, 1)[0] ?? '')
      else await put(path, ids[turn % ids.length] ?? '', { open: turn % 5 < 2 })
    }
  }
  const writers = [0, 1, 2, 3].map(writer)
  const copies: Awaited<ReturnType<typeof openLive>>[] = []
  for (let n = 0; n < repeated(12, 60); n += 1) copies.push(await openLive(ws.service, path, 'open=eq.true'))
  isOver = true
  await Promise.all(writers)
  const last = await created(path, { n: -1, open: true })
  const { documents } = await readList(ws.service, path, 'open=eq.true')
  expect(documents.has(last)).toBe(true)
  for (const { now } of copies) {
    await eventually(async () => (now().has(last) ? true : undefined))
    expect(sorted(now())).toEqual(sorted(documents))
  }
})

test('change that is published while a list waits for its position: in the list, or after the position', async () => {
  const path = `/v1/collections/${unique('waits')}`
  const proxy = await startHoldingProxy(inject('tenon').env['REDIS_URL'] ?? '', `changes:${ws.workspaceId}`)
  const node = await startInProcessNode({ REDIS_URL: proxy.url })
  const listing = call('GET', `${path}/documents?page[position]=true`, { as: ws.service, at: node.at })
  await proxy.held
  const id = await created(path, { n: 1 })
  await relayed(path, 1)
  proxy.release()
  const { status, body } = await listing
  expect(status, JSON.stringify(body)).toBe(200)
  const later = await subscribeToStream(ws.service, `${path}/subscribe?last_event_id=${body.page.position}`)
  await created(path, { n: 2 })
  await toldAtLast(later, 'enter 2')
  const known = [
    ...body.data.map((one: { id: string }) => one.id),
    ...changesIn(later).map(({ data }) => data.id),
  ]
  expect(known).toContain(id)
  await node.close()
  proxy.close()
})

test('queries in JSON give the position too; without asking, there is none', async () => {
  const path = `/v1/collections/${unique('live')}`
  await created(path, { n: 1 })
  const query = (body: object) => call('POST', `${path}/query`, { as: ws.service, body })
  expect((await query({ position: true })).body.page.position).toMatch(/^\d+-\d+$/)
  expect((await query({})).body.page).not.toHaveProperty('position')
  expect((await call('GET', `${path}/documents`, { as: ws.service })).body.page).not.toHaveProperty(
    'position',
  )
})

test('order, limit, pages, faulty filters: refused with the reason', async () => {
  const { at: path } = await declaredWithRules(ws, { anon: { read: true } })
  const refused = async (query: string) => {
    const { status, body } = await call('GET', `${path}/subscribe?${query}`, { as: ws.service })
    return [status, body.code, body.detail]
  }
  expect(await refused('order=n.desc')).toEqual([
    400,
    'unknown_parameter',
    expect.stringContaining('no order'),
  ])
  for (const query of ['limit=5', 'page[size]=5', 'offset=1'])
    expect(await refused(query)).toEqual([400, 'unknown_parameter', expect.stringContaining('no limit')])
  expect(await refused('expand=customer')).toEqual([
    400,
    'unknown_parameter',
    expect.stringContaining('no expand'),
  ])
  expect(await refused('level=high')).toEqual([400, 'filter_operator_missing', expect.anything()])
  expect(await refused('level=eq.high')).toEqual([400, 'filter_type_mismatch', expect.anything()])
  expect(await refused('hidden=eq.1')).toEqual([400, 'filter_invalid', expect.stringContaining('hidden')])
  expect(await refused('select=hidden')).toEqual([400, 'select_invalid', expect.stringContaining('hidden')])
  expect(Object.keys(TICKET_PROPERTIES)).not.toContain('hidden')
})

test('positions that are none of this stream: a gap first, then what is new', async () => {
  const path = `/v1/collections/${unique('live')}`
  for (const position of ['forged', '1-1,1-1', '999999999999999-0']) {
    const received = await subscribeToStream(ws.service, `${path}/subscribe`, { 'last-event-id': position })
    expect(received[0]?.event, position).toBe('gap')
  }
  const elsewhere = await createTestWorkspace()
  await created(`/v1/collections/${unique('theirs')}`, { n: 1 }, elsewhere.service)
  const { position } = await readList(elsewhere.service, path, '')
  const live = await subscribeToStream(ws.service, `${path}/subscribe`, { 'last-event-id': position })
  await created(path, { n: 2 })
  await toldAtLast(live, 'enter 2')
  expect(toldIn(live)).toEqual(['enter 2'])
})

test('filter that takes too long on a changed document: ends the stream with the reason', async () => {
  const path = `/v1/collections/${unique('live')}`
  const live = await subscribeToStream(ws.service, `${path}/subscribe?text=like.*a________b*`)
  await created(path, { text: 'a'.repeat(200_000) })
  expect(await endOf(live)).toBe('query_too_costly')
})

test('collection that is closed to the caller: refused; closed meanwhile: the stream ends', async () => {
  const { at: path, schemaId } = await declaredWithRules(ws, { anon: { read: true } })
  const closed = await declaredWithRules(ws, { user: { read: true } })
  const refused = await call('GET', `${closed.at}/subscribe`, { as: ws.anon })
  expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
  const live = await subscribeToStream(ws.anon, `${path}/subscribe`)
  const { body } = await call('GET', `/v1/schemas/${schemaId}`, { as: ws.operator })
  const { schema, mode } = body
  const access = { user: { read: true } }
  const changed = await call('PUT', `/v1/schemas/${schemaId}`, {
    as: ws.operator,
    body: { schema, mode, access },
  })
  expect(changed.status, JSON.stringify(changed.body)).toBe(200)
  expect(await endOf(live)).toBe('forbidden')
})
