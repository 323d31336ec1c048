/** Whole collections that are in use when they are dropped, truncated or renamed: by name, by writers, by work under way, by one another. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import { NOTES, publishMcpServer } from '../../support/clients/mcp.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { startBulkNode } from '../../support/fixtures/bulk-changes.ts'
import { publishOn } from '../../support/fixtures/event-triggers.ts'
import { deployTriggered, onTopics } from '../../support/fixtures/function-triggers.ts'
import { transaction } from '../../support/fixtures/outbox.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import {
  declareWith,
  dropCollection,
  renameCollection,
  truncateCollection,
} from '../../support/fixtures/whole-collections.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const at = (collection: string, rest = '') => `/v1/collections/${collection}/documents${rest}`
const create = (collection: string, body: object, as: Caller = ws.service) =>
  call('POST', at(collection), { as, body })
const idsIn = async (collection: string, of = ws): Promise<string[]> =>
  (await call('GET', at(collection, '?page[size]=200'), { as: of.service })).body.data.map(
    ({ id }: { id: string }) => id,
  )
const declare = (collection: string, more: object = {}, of = ws) => declareWith(of, collection, more)
const drop = (collection: string, of = ws) => dropCollection(of, collection)
const truncate = (collection: string, of = ws) => truncateCollection(of, collection)
const rename = (collection: string, to: string, of = ws) => renameCollection(of, [collection, to])

/** @returns the names in `used_by` of the refusal; empty if the change was made */
const users = ({ status, body }: Reply): string[] =>
  status === 409
    ? body.used_by.map(({ kind, name }: { kind: string; name: string }) => `${kind} ${name}`)
    : []

test('users by name: triggers, tools and lookups are named, and nothing is changed', async () => {
  const of = await addTestWorkspace(ws)
  const [name, other] = ['notes', unique('other')]
  await declare(name, { schema: { properties: { team: { type: 'string' } } } }, of)
  await create(name, { team: 'red' }, of.service)
  const lookups = { teams: { collection: name, field: 'team', filter: {} } }
  const access = { lookups, user: { read: { team: { in: '$lookups.teams' } } } }
  await declare(other, { schema: { properties: { team: { type: 'string' } } }, access }, of)
  const deployed = await deployTriggered(of, onTopics(`collections.${name}.created`, 'orders.*'))
  const flow = await publishOn(of, `{ one: { with: { type: collections.${name}.deleted } } }`)
  await publishMcpServer(of, 'shop', NOTES)
  const named = [`function ${deployed.name}`, `flow ${flow.name}`, 'mcp_server shop']
  expect(users(await drop(name, of))).toEqual([`lookup ${other}`, ...named])
  expect(users(await rename(name, unique('c'), of))).toEqual(named)
  expect(await idsIn(name, of)).toHaveLength(2)
  const truncated = await truncate(name, of)
  expect([truncated.status, truncated.body]).toEqual([200, { name, truncated: true }])
})

test('lookups of a renamed collection, and into it: users read what they read before', async () => {
  const [teams, tickets] = [unique('teams'), unique('tickets')]
  await declare(teams, { schema: { properties: { team: { type: 'string' }, user: { type: 'string' } } } })
  const lookups = { teams: { collection: teams, field: 'team', filter: { user: '$user.id' } } }
  const access = { lookups, user: { read: { team: { in: '$lookups.teams' } } } }
  await declare(tickets, { schema: { properties: { team: { type: 'string' } } }, access })
  await create(teams, { team: 'red', user: 'mia' })
  await create(tickets, { team: 'red' })
  await create(tickets, { team: 'blue' })
  const mia = await userToken(ws, 'mia')
  const seen = async (name: string) =>
    (await call('GET', at(name), { as: mia })).body.data?.map(({ team }: { team: string }) => team)
  expect(await seen(tickets)).toEqual(['red'])
  const [groups, issues] = [unique('groups'), unique('issues')]
  expect((await rename(teams, groups)).status).toBe(200)
  expect(await seen(tickets)).toEqual(['red'])
  expect((await rename(tickets, issues)).status).toBe(200)
  expect(await seen(issues)).toEqual(['red'])
  expect((await create(groups, { team: 'blue', user: 'mia' })).status).toBe(201)
  expect(await seen(issues)).toEqual(['red', 'blue'])
})

test('bulk change and index under way: named until they end, and one that comes later finds nothing', async () => {
  const name = unique('c')
  const id = await declare(name, { schema: { properties: { n: { type: 'integer' } } } })
  await create(name, { n: 1 })
  const node = await startBulkNode(ws)
  try {
    const bulk = await node.record({ collection: name, request: { filter: {}, data: { n: 2 } } })
    for (const reply of [await drop(name), await truncate(name), await rename(name, unique('c'))])
      expect(users(reply)).toEqual([`bulk_change ${bulk}`])
    expect(
      (await call('POST', `/v1/collections/${name}/bulk-changes/${bulk}/cancel`, { as: ws.service })).status,
    ).toBe(200)
    await asSuperuser(
      `update tenon.schemas set indexes = '[{"name": "i9", "fields": ["n"], "columns": ["c1"], "unique": false, "state": "building"}]' where id = $1`,
      [id],
    )
    expect(users(await drop(name))).toEqual(['index_build i9'])
    await asSuperuser(`update tenon.schemas set indexes = '[]' where id = $1`, [id])
    expect((await drop(name)).status).toBe(200)
    const later = await node.record({ collection: name, request: { filter: {}, data: { n: 2 } } })
    expect(await node.make(later)).toBe('ended')
    const { body } = await call('GET', `/v1/collections/${name}/bulk-changes/${later}`, { as: ws.service })
    expect(body).toMatchObject({ status: 'completed', matched: 0 })
  } finally {
    await node.close()
  }
})

test.each([
  ['declared', true],
  ['undeclared', false],
] as const)(
  '%s collection, dropped and truncated at once, again and again, under writers and imports: one wins, no request fails, and what is acknowledged later is there',
  async (_what, isDeclared) => {
    const name = unique('c')
    if (isDeclared) await declare(name)
    else await create(name, {})
    const failures: unknown[] = []
    let isOver = false
    /** Since the last drop or truncation was answered. */
    let since: string[] = []
    let round = 0
    const note = ({ status, body }: Reply) => {
      if (status >= 500 && body.code !== 'overloaded') failures.push([status, body])
    }
    const lanes = Array.from({ length: 3 }, async (_, lane) => {
      for (let n = 0; !isOver; n++) {
        const began = round
        const made = await create(name, { n, lane })
        note(made)
        if (made.status === 201 && began === round && round % 2 === 0) since.push(made.body.id)
        if (made.status !== 201) continue
        const change = await call('PATCH', at(name, `/${made.body.id}`), { as: ws.service, body: { n: -n } })
        note(change)
        if (![200, 404, 503].includes(change.status)) failures.push([change.status, change.body])
      }
    })
    const importing = (async () => {
      const body = Array.from({ length: 300 }, (_, n) => JSON.stringify({ n })).join('\n')
      const headers = { 'content-type': 'application/x-ndjson' }
      while (!isOver)
        note(await call('POST', `/v1/collections/${name}/import`, { as: ws.service, body, headers }))
    })()
    const outcomes: number[][] = []
    for (let n = 0; n < 6; n++) {
      // Odd while the collection is emptied: what is acknowledged then may be gone.
      round += 1
      const both = await Promise.all(n % 2 === 0 ? [drop(name), drop(name)] : [truncate(name), drop(name)])
      both.forEach(note)
      outcomes.push(both.map(({ status }) => status))
      since = []
      round += 1
      await eventually(async () => (since.length > 5 ? true : undefined))
      for (const id of since.slice(0, 5)) {
        const { status } = await call('GET', at(name, `/${id}`), { as: ws.service })
        if (status !== 200) failures.push(['lost', n, id])
      }
    }
    isOver = true
    await Promise.all([...lanes, importing])
    expect(failures).toEqual([])
    expect(outcomes.flat().filter((status) => ![200, 404, 503].includes(status))).toEqual([])
    expect(outcomes.flat().filter((status) => status === 200).length).toBeGreaterThan(5)
  },
)

test('process that ends in the middle: the collection is as before, and the same request drops it', async () => {
  const name = unique('c')
  const id = await declare(name)
  await create(name, { n: 1 })
  const holder = await transaction(ws)
  try {
    await holder.query(`select count(*) from tenon_data."${id}"`)
    const cut = drop(name)
    await eventually(async () => {
      const ended = await asSuperuser(
        `select pg_terminate_backend(pid) from pg_stat_activity where query like '%lock table%' and wait_event_type = 'Lock'
           and pg_blocking_pids(pid) <> '{}' and query like $1`,
        [`%${id}%`],
      )
      return ended.length > 0 || undefined
    })
    expect((await cut).status).toBe(503)
  } finally {
    await holder.query('rollback')
    await holder.end()
  }
  expect(await idsIn(name)).toHaveLength(1)
  expect((await drop(name)).status).toBe(200)
  expect(await idsIn(name)).toEqual([])
})

test('too many documents without a declaration: refused with the way to delete them, and nothing is changed', async () => {
  const name = unique('c')
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
     select $1, $2, $3, gen_random_uuid(), '{}' from generate_series(1, 100001)`,
    [ws.tenantId, ws.workspaceId, name],
  )
  for (const reply of [await drop(name), await truncate(name), await rename(name, unique('c'))])
    expect([reply.status, reply.body]).toMatchObject([
      409,
      { code: 'state_conflict', detail: expect.stringContaining('more than 100000 documents') },
    ])
  const [one] = await idsIn(name)
  expect((await call('DELETE', at(name, `/${one}`), { as: ws.service })).status).toBe(200)
  const dropped = await drop(name)
  expect([dropped.status, dropped.body]).toEqual([200, { name, dropped: true }])
  expect(await idsIn(name)).toEqual([])
})

test('reader of an earlier moment, such as an export of the workspace: finds no table after a truncation, rather than no documents', async () => {
  const name = unique('c')
  const id = await declare(name)
  await create(name, { n: 1 })
  const reader = await transaction(ws)
  try {
    await reader.query('rollback')
    await reader.query('begin isolation level repeatable read')
    await reader.query('set local role tenon_service')
    await reader.query('select 1')
    expect((await truncate(name)).status).toBe(200)
    await expect(reader.query(`select count(*) from tenon_data."${id}"`)).rejects.toMatchObject({
      code: '42P01',
    })
  } finally {
    await reader.query('rollback')
    await reader.end()
  }
})
