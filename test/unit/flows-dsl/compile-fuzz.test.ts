// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Compiles large definitions with a part replaced, missing or renamed: always a result, never an exception.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { isObject, type Json, type JsonObject } from '../../../flows-dsl/json.ts'
import { CATALOGUE } from '../../../src/features/data-operations.ts'
import { repeated } from '../../support/stack/soak.ts'
import { threadMs } from '../../support/thread-time.ts'

const SOUND: JsonObject = {
  document: { dsl: '1.0.3', namespace: 'shop', name: 'order', version: '1.0.0', tags: { a: 'b' } },
  input: {
    schema: {
      format: 'json',
      document: { type: ['object', 'array'], $defs: { a: true }, properties: { a: { $ref: '#/$defs/a' } } },
    },
    from: '.',
  },
  use: {
    secrets: ['key'],
    errors: { declined: { type: 'https://x.test/e', status: 402, title: '${ .title }' } },
    retries: { often: { delay: 'PT1S', backoff: { linear: {} }, limit: { attempt: { count: 3 } } } },
    timeouts: { short: { after: { seconds: 5 } } },
    catalogs: { far: { endpoint: { uri: 'https://x.test' } } },
    authentications: {
      known: { oauth2: { authority: 'https://x.test', grant: 'client_credentials', client: { id: 'a' } } },
    },
    functions: { ask: { call: 'http', with: { method: 'get', endpoint: 'https://x.test/{id}' } } },
    extensions: [{ log: { extend: 'all', when: '.a', before: [{ say: { call: 'ask', with: { id: 1 } } }] } }],
  },
  timeout: 'short',
  schedule: { cron: '0 9 * * *', on: { one: { with: { type: 'a' } } }, read: 'data' },
  evaluate: { language: 'jq', mode: 'strict' },
  do: [
    {
      a: {
        call: 'ask',
        with: { id: '${ $secrets.key }' },
        timeout: { after: '${ .t }' },
        metadata: { a: [1] },
      },
    },
    { b: { try: [{ c: { raise: { error: 'declined' } } }], catch: { retry: 'often' } } },
    {
      d: {
        call: 'http',
        with: { method: 'get', endpoint: { uri: 'https://x.test', authentication: { use: 'known' } } },
      },
    },
    {
      e: {
        call: 'openapi',
        with: { document: { endpoint: 'https://x.test' }, operationId: 'a', parameters: { b: '${ . }' } },
      },
    },
    {
      f: {
        set: { g: 1 },
        output: { as: '.g', schema: { document: { type: 'integer' } } },
        export: { as: '.' },
      },
    },
  ],
}

const JUNK: readonly Json[] = [
  null,
  true,
  5,
  -1,
  '',
  'x',
  '${ . }',
  '${',
  'often',
  'ask',
  'all',
  [],
  [[]],
  {},
  { x: {} },
  { use: 'known' },
  '#/$defs/a',
]

function placesIn(value: Json, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  const inner = Array.isArray(value) ? [...value.entries()] : isObject(value) ? Object.entries(value) : []
  return [path, ...inner.flatMap(([key, one]) => placesIn(one, [...path, key]))]
}

const places = placesIn(SOUND).filter(({ length }) => length > 0)

type Change = (holder: Json[] | JsonObject, key: string | number) => void

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.constantFrom(...JUNK).map(
    (junk): Change =>
      (holder, key) =>
        Object.assign(holder, { [key]: junk }),
  ),
  fc.constant<Change>((holder, key) => {
    if (Array.isArray(holder)) holder.splice(Number(key), 1)
    else delete holder[key]
  }),
  fc.constant<Change>((holder, key) => {
    if (!Array.isArray(holder)) Object.assign(holder, { [`${key}e`]: holder[key] ?? null })
  }),
)

function changed(path: readonly (string | number)[], apply: Change): Json {
  const copy: Json = structuredClone(SOUND)
  let holder: Json = copy
  for (const key of path.slice(0, -1)) holder = (holder as JsonObject)[key] ?? null
  const last = path.at(-1)
  if (typeof holder === 'object' && holder !== null && last !== undefined) apply(holder, last)
  return copy
}

test('definition without changes: compiles', () => {
  expect(compile(JSON.stringify(SOUND), { catalogue: CATALOGUE }).diagnostics).toEqual([])
})

test('changed definition: compiles, or yields a diagnostic with a location in the source', () => {
  let refused = 0
  fc.assert(
    fc.property(fc.constantFrom(...places), change, (path, apply) => {
      const source = JSON.stringify(changed(path, apply), null, 1)
      const { ir, diagnostics } = compile(source, { catalogue: CATALOGUE })
      expect(ir === undefined).toBe(diagnostics.length > 0)
      for (const { line, column, excerpt } of diagnostics) {
        expect(source.split('\n')[line - 1]?.length).toBeGreaterThanOrEqual(column - 1)
        expect(excerpt).toContain('^')
      }
      refused += diagnostics.length > 0 ? 1 : 0
    }),
    { numRuns: repeated(150, 500), seed: 11 },
  )
  expect(refused).toBeGreaterThan(repeated(60, 250))
})

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const many = (count: number, line: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => line(n)).join('\n')

test.each([
  [
    'extensions of many tasks',
    `use:\n  extensions:\n${many(800, (n) => `  - e${n}: { extend: all, after: [{ s: { set: {} } }] }`)}\ndo:\n${many(1_500, (n) => `- t${n}: { set: {} }`)}`,
  ],
  [
    'functions that are called often',
    `use:\n  functions:\n${many(1_500, (n) => `    f${n}: { set: {} }`)}\ndo:\n${many(1_500, (n) => `- t${n}: { call: f${n} }`)}`,
  ],
  ['names that are not there', `do:\n${many(1_500, (n) => `- t${n}: { call: f${n}, timeout: x${n} }`)}`],
  [
    'a schema that refers to much',
    `input:\n  schema:\n    document:\n      $defs:\n${many(2_000, (n) => `        d${n}: { $ref: '#/$defs/d${(n + 1) % 2_000}' }`)}\ndo: [{ a: { set: {} } }]`,
  ],
  [
    'a pattern of many signs',
    `input: { schema: { document: { pattern: '${'[a-z]'.repeat(50)}${'('.repeat(20_000)}' } } }\ndo: [{ a: { set: {} } }]`,
  ],
  [
    'a cron of many parts',
    `schedule: { cron: '0 0 ${Array(20_000).fill('*/1').join(',')} * *' }\ndo: [{ a: { set: {} } }]`,
  ],
])('%s: yields a result soon', (_name, source) => {
  const beforeMs = threadMs()
  compile(HEAD + source, { catalogue: CATALOGUE })
  expect(threadMs() - beforeMs).toBeLessThan(3_000)
})
