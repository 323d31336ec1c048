// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Events that start an execution, and how events are correlated. */

import { expect, test } from 'vitest'
import { correlateEvent, inputOf, type PartialCorrelation } from '../../../flows-dsl/event-correlation.ts'
import type { EventStrategy, JsonObject } from '../../../flows-dsl/ir.ts'
import { typesOf } from '../../../flows-dsl/tasks/listen.ts'
import { compiled } from '../../conformance/flows/scenario.ts'
import { threadMs } from '../../support/thread-time.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"

function strategy(on: string): EventStrategy {
  const found = compiled(`${HEAD}schedule: { on: ${on} }\ndo: [{ a: { set: {} } }]`).schedule?.on
  if (found === undefined) throw new Error('no strategy')
  return found
}

let last = 0
const event = (type: string, data: JsonObject = {}, more: JsonObject = {}): JsonObject => {
  last += 1
  return { specversion: '1.0', id: `evt_${last}`, source: '/workspaces/ws', type, data, ...more }
}

/** Passes events one after the other. @returns the types of the correlated events, each time */
function correlated(on: EventStrategy, events: readonly JsonObject[]) {
  let open: readonly PartialCorrelation[] = []
  const complete = events.flatMap((one) => {
    const gathered = correlateEvent(on, open, one, 0)
    open = JSON.parse(JSON.stringify(gathered.open))
    return gathered.complete === undefined ? [] : [gathered.complete]
  })
  return { complete, open }
}

test.each([
  ['{ one: { with: { type: a.b } } }', 1],
  ['{ one: { with: { type: "${ startswith(\\"a.\\") }" } } }', 2],
  ['{ one: { with: { type: a.b, data: "${ .n > 5 }" } } }', 0],
  ['{ any: [{ with: { type: a.b } }, { with: { data: { n: 2 } } }] }', 2],
  ['{ any: [] }', 3],
  ['{ one: { with: { type: a.b }, correlate: { n: { from: .data.n, expect: 1 } } } }', 1],
  ['{ one: { with: { type: a.b }, correlate: { n: { from: .data.n, expect: 7 } } } }', 0],
  ['{ one: { with: { source: /workspaces/other } } }', 0],
])('%s: matches %i of three events', (on, count) => {
  const events = [event('a.b', { n: 1 }), event('a.c', { n: 2 }), event('b', { n: 3 })]
  expect(correlated(strategy(on), events).complete).toHaveLength(count)
})

const PAID_AND_PACKED =
  '{ all: [{ with: { type: paid }, correlate: { order: { from: .data.order } } },' +
  ' { with: { type: packed }, correlate: { order: { from: .data.order } } }] }'

test('`all`: matching events of any order: are correlated', () => {
  const on = strategy(PAID_AND_PACKED)
  const events = [
    event('paid', { order: 1 }),
    event('packed', { order: 2 }),
    event('paid', { order: 1 }),
    event('paid', { order: 2 }),
    event('packed', { order: 1 }),
  ]
  const { complete, open } = correlated(on, events)
  expect(complete).toEqual([
    [events[1], events[3]],
    [events[0], events[4]],
  ])
  expect(open).toEqual([{ filled: [0], bound: { order: 1 }, events: [events[2]] }])
})

test('duplicate event: counts once', () => {
  const on = strategy('{ all: [{ with: { type: a } }, { with: { type: a } }] }')
  const first = event('a')
  expect(correlated(on, [first, first]).complete).toEqual([])
  expect(correlated(on, [first, first, event('a')]).complete).toHaveLength(1)
})

test('incomplete correlations: over the limit: the oldest is dropped', () => {
  const on = strategy(PAID_AND_PACKED)
  const many = Array.from({ length: 150 }, (_, n) => event('paid', { order: n }))
  expect(correlated(on, many).open.map(({ bound }) => bound['order'])).toEqual(
    Array.from({ length: 100 }, (_, n) => n + 50),
  )
  const large = Array.from({ length: 5 }, (_, n) => event('paid', { order: n, text: 'x'.repeat(300_000) }))
  expect(correlated(on, large).open.map(({ bound }) => bound['order'])).toEqual([2, 3, 4])
})

test('filter expression: fails: the event does not match; costs too much: is an error', () => {
  const on = strategy('{ one: { with: { data: "${ .n + 1 > 1 }" } } }')
  expect(
    correlated(on, [event('a', { n: 'text' }), event('a', { n: {} }), event('a', { n: 1 })]).complete,
  ).toHaveLength(1)
  const bomb = strategy('{ one: { with: { data: "${ [range(.n)] | length > 1 }" } } }')
  expect(correlated(bomb, [event('a', { n: 100 })]).complete).toHaveLength(1)
  const startedMs = threadMs()
  expect(() => correlated(bomb, [event('a', { n: 1e9 })])).toThrow(/too many steps|larger/)
  expect(threadMs() - startedMs).toBeLessThan(500)
})

test('events: are given to the execution in the form that `read` selects', () => {
  const one = event('a', { n: 1 })
  expect(inputOf([one])).toEqual([{ n: 1 }])
  expect(inputOf([one], 'envelope')).toEqual([one])
  expect(inputOf([one], 'raw')).toEqual(['{"n":1}'])
})

test('event types: written as literals: are known in advance', () => {
  expect(typesOf({ to: strategy(PAID_AND_PACKED) })).toEqual(['paid', 'packed'])
  expect(typesOf({ to: strategy('{ any: [{ with: { type: a } }, { with: { data: 1 } }] }') })).toBeUndefined()
  expect(typesOf({ to: strategy('{ any: [] }') })).toBeUndefined()
})
