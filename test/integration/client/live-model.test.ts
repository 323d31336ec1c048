/** Live lists show what the server has after any changes, with connections that are cut in the midst. */

import { beforeAll, expect, inject, test } from 'vitest'
import { createClient } from '../../../client/src/index.ts'
import { createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})

const SEED = 20_261_130
const CHANGES = 120

/** Texts and numbers whose order is easily got wrong. */
const VALUES = ['a', 'B', 'é', '', '10', '9', '\u{1F600}', '\uFFFD', null, 1, 1.5, -2, true, false]

test('random changes and cut connections: the list is the page of the server, in its order', async () => {
  const random = randomOf(SEED)
  const open = new Set<AbortController>()
  const cutting: typeof fetch = (input, init) => {
    const controller = new AbortController()
    open.add(controller)
    return fetch(input, {
      ...init,
      signal: AbortSignal.any([controller.signal, ...(init?.signal ? [init.signal] : [])]),
    })
  }
  const options = { url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' }
  const name = unique('values')
  const [writer, reader] = [
    createClient(options).from(name),
    createClient({ ...options, fetch: cutting }).from(name),
  ]
  const filter = { $or: [{ open: true }, { 'place.city': { in: ['Rome', 'Oslo, "x"'] } }] } as const
  const value = () => VALUES[random(VALUES.length)]
  const fields = () => ({
    ...(random(4) > 0 && { value: value() }),
    open: random(2) === 0,
    place: { city: ['Rome', 'Bern', 'Oslo, "x"'][random(3)] },
  })
  for (let n = 0; n < 10; n++) await writer.create(fields())
  const list = reader.where(filter).order('value', 'desc').order('place.city').live()
  const stop = list.subscribe(() => undefined)
  await expect.poll(() => list.snapshot.state).toBe('live')
  const ids = (await writer.page({ size: 200 })).data.map(({ id }) => id)
  for (let n = 0; n < CHANGES; n++) {
    const id = ids[random(ids.length)]
    const action = random(10)
    if (id === undefined || action < 3) ids.push((await writer.create(fields())).id)
    else if (action === 3) await writer.delete(id).finally(() => ids.splice(ids.indexOf(id), 1))
    else await writer.replace(id, fields())
    if (random(15) === 0) for (const controller of open) controller.abort()
  }
  const expected = (
    await writer.where(filter).order('value', 'desc').order('place.city').page({ size: 1_000 })
  ).data
  expect(expected.length).toBeGreaterThan(5)
  await expect.poll(() => list.snapshot.documents).toEqual(expected)
  stop()
})

test('five hundred changes at once: none is lost, and a burst paints few times', async () => {
  const tenon = createClient({ url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' })
  const name = unique('burst')
  await tenon.from(name).create({ n: -1 })
  const list = tenon.from(name).order('n').live()
  let paints = 0
  const stop = list.subscribe(() => {
    paints += 1
  })
  await expect.poll(() => list.snapshot.state).toBe('live')
  const operations = Array.from({ length: 500 }, (_, n) => ({ op: 'create', collection: name, data: { n } }))
  for (const from of [0, 100, 200, 300, 400])
    await tenon.batch.run({ ops: operations.slice(from, from + 100) } as never)
  await expect
    .poll(() => list.snapshot.documents.map(({ n }) => n))
    .toEqual([...Array(501).keys()].map((n) => n - 1))
  expect(paints).toBeLessThan(500)
  stop()
})

test('no server at first, and none for a while later: the list waits, is stale meanwhile, and then shows what there is', async () => {
  const options = { url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' }
  const name = unique('away')
  const writer = createClient(options).from(name)
  await writer.create({ n: 1 })
  let isAway = true
  const open = new Set<AbortController>()
  const fetching: typeof fetch = (input, init) => {
    if (isAway) return Promise.reject(new TypeError('connection refused'))
    const controller = new AbortController()
    open.add(controller)
    return fetch(input, {
      ...init,
      signal: AbortSignal.any([controller.signal, ...(init?.signal ? [init.signal] : [])]),
    })
  }
  const list = createClient({ ...options, fetch: fetching, retries: 0 })
    .from(name)
    .order('n')
    .live()
  const states = new Set<string>()
  const stop = list.subscribe(({ state }) => states.add(state))
  expect(list.snapshot.state).toBe('connecting')
  isAway = false
  const shown = () => [list.snapshot.state, list.snapshot.documents.map(({ n }) => n).join()]
  await expect.poll(shown).toEqual(['live', '1'])
  isAway = true
  for (const controller of open) controller.abort()
  await expect.poll(() => list.snapshot.state).toBe('stale')
  await writer.create({ n: 2 })
  isAway = false
  await expect.poll(shown).toEqual(['live', '1,2'])
  stop()
})

test('a list that becomes too long, a wrong filter and a missing right each end it with their error', async () => {
  const tenon = createClient({ url: inject('tenon').url, apikey: ws.service['apikey'] ?? '' })
  const name = unique('long')
  for (let n = 0; n < 3; n++) await tenon.from(name).create({ n })
  const errorOf = async (list: {
    subscribe(listener: () => void): () => void
    snapshot: { state: string; error?: unknown }
  }) => {
    const stop = list.subscribe(() => undefined)
    await expect.poll(() => list.snapshot.state).toBe('ended')
    stop()
    return list.snapshot.error
  }
  expect(await errorOf(tenon.from(name).live({ max: 2 }))).toMatchObject({ code: 'output_too_large' })
  const growing = tenon.from(name).live({ max: 3 })
  growing.subscribe(() => undefined)
  await expect.poll(() => growing.snapshot.state).toBe('live')
  await tenon.from(name).create({ n: 3 })
  expect(await errorOf(growing)).toMatchObject({ code: 'output_too_large' })
  const wrong = tenon
    .from(name)
    .where({ n: { resembles: 4 } as never })
    .live()
  expect(await errorOf(wrong)).toMatchObject({ status: 400 })
  const anon = createClient({ url: inject('tenon').url, apikey: ws.anon['apikey'] ?? '' })
  expect(await errorOf(anon.from(name).live())).toMatchObject({ status: 403 })
  expect(() => tenon.from(name).expand('x').live()).toThrow('no `expand`')
})
