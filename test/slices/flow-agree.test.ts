/** Made-up flows on Temporal and in the simulator: the same end, by the same steps. */

import { beforeAll, expect, inject, test } from 'vitest'
import { agrees, madeUpFlows } from '../flows/agreement.ts'
import { Place } from '../flows/place.ts'
import { aRoom, call, eventually, type Room } from '../support/tenants.ts'

const FLOWS = 40

let room: Room
beforeAll(async () => {
  room = await aRoom()
})

test('they agree', async () => {
  const place = new Place(room, inject('tenon'))
  const ends: string[] = []
  for (const [n, source] of madeUpFlows(FLOWS).entries()) ends.push(await agrees(place, `made-${n}`, source))
  // Not all of them alike.
  expect(new Set(ends).size).toBeGreaterThan(1)
}, 180_000)

test('five thousand items, twenty at a time, one in a hundred failing: in order, and all of them', async () => {
  const as = room.operator
  const source = `document: { dsl: '1.0.3', namespace: test, name: wide, version: '1.0.0' }
do:
  - all:
      for: { each: n, in: '\${ [range(5000)] }', concurrency: 20, onError: continue }
      do:
        - put:
            call: collection.create
            with: { name: '\${ if $n % 100 == 99 then "no name" else "wide" end }', document: { n: '\${ $n }' } }
            output: { as: '\${ .n }' }
      output: { as: '\${ map(if type == "number" then . else -1 end) }' }
`
  await call('POST', `${room.flows}/definitions`, { as, body: { source } })
  expect((await call('POST', `${room.flows}/definitions/wide/versions`, { as, body: {} })).status).toBe(201)
  const begun = await call('POST', `${room.flows}/definitions/wide/executions`, { as, body: { input: {} } })
  const run = await eventually(async () => {
    const { body } = await call('GET', `${room.flows}/executions/${begun.body.id}`, { as })
    return body.ended_at === null ? undefined : body
  }, 170_000)
  expect(run.status, JSON.stringify(run.error)).toBe('completed')
  expect(run.output).toEqual(Array.from({ length: 5_000 }, (_, n) => (n % 100 === 99 ? -1 : n)))
  const { body } = await call('GET', '/v1/collections/wide/documents?page[size]=1&count=exact', {
    as: room.service,
  })
  expect(body.page.total).toBe(4_950)
}, 180_000)
