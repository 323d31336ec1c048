// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Estimates about a flow that need no execution. */

import { expect, test } from 'vitest'
import { compiled } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const GET = "call: collection.get, with: { name: a, id: '1' }"

test.each([
  ['pure steps cost nothing', 'do: [{ a: { set: {} } }, { b: { set: {} } }]', { fixed: 5, perItem: 0 }, 1],
  ['calls and waits', `do: [{ a: { ${GET} } }, { b: { wait: PT1S } }]`, { fixed: 16, perItem: 0 }, 1],
  [
    'a loop over what only the run knows',
    `do: [{ a: { for: { in: .x }, do: [{ b: { ${GET} } }, { c: { wait: PT1S } }] } }]`,
    { fixed: 5, perItem: 11 },
    1,
  ],
  [
    'a loop over three items',
    `do: [{ a: { for: { in: [{}, {}, {}] }, do: [{ b: { ${GET} } }] } }]`,
    { fixed: 23, perItem: 0 },
    1,
  ],
  [
    'branches, of which one has branches',
    `do: [{ a: { fork: { branches: [{ b: { ${GET} } }, { c: { fork: { branches: [{ d: { ${GET} } }, { e: { set: {} } }] } } }] } } }]`,
    { fixed: 17, perItem: 0 },
    3,
  ],
  [
    'a catch is not a part of a straight run',
    `do: [{ a: { try: [{ b: { ${GET} } }], catch: { do: [{ c: { ${GET} } }] } } }]`,
    { fixed: 11, perItem: 0 },
    1,
  ],
  [
    'extensions cost at each task that they extend',
    `use: { extensions: [{ l: { extend: set, after: [{ s: { ${GET} } }] } }] }\ndo: [{ a: { set: {} } }, { b: { set: {} } }]`,
    { fixed: 17, perItem: 0 },
    1,
  ],
  [
    'events, for each of which tasks run',
    `do: [{ a: { listen: { to: { any: [], until: .x } }, foreach: { do: [{ b: { ${GET} } }] } } }]`,
    { fixed: 15, perItem: 6 },
    1,
  ],
  [
    'a loop that goes on at four items at the same time',
    `do: [{ a: { for: { in: .x, concurrency: 4 }, do: [{ b: { fork: { branches: [{ c: { ${GET} } }, { d: { set: {} } }] } } }] } }]`,
    { fixed: 5, perItem: 6 },
    8,
  ],
  [
    'data that looks like a task is none',
    `do: [{ a: { set: { list: [{ kind: call, pointer: /x, body: {} }] } } }]`,
    { fixed: 5, perItem: 0 },
    1,
  ],
])('%s: is summarised as expected', (_name, source, events, fanOut) => {
  expect(compiled(HEAD + source).facts).toMatchObject({ events, fanOut })
})

test('declarations that are not used: are not in the summary', () => {
  const { facts } = compiled(`${HEAD}use:
  secrets: [key, other]
  functions: { f: { ${GET} }, g: { wait: PT1S } }
do: [{ a: { call: f, compensate: [{ c: { raise: { error: { type: urn:x, status: 1 } } } }] } }, { b: { set: { k: '\${ $secrets.key }' } } }]`)
  expect(facts).toMatchObject({
    functions: ['collection.get'],
    secrets: ['key'],
    kinds: ['call', 'do', 'raise', 'set'],
  })
})
