/**
 * The published JSON Schema and the compiler agree on the form of definitions, except for the table below.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import type { Diagnostic } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { editorSchema } from '../../../flows-dsl/language-schema/language-schema.ts'
import { repeated } from '../../support/stack/soak.ts'
import { CATALOGUE } from './scenario.ts'

const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false, allErrors: false })
const fits = ajv.compile(editorSchema(CATALOGUE))

/** Constraints that no schema expresses: references, syntax of texts, combinations of fields. */
const NOT_OF_FORM: ReadonlySet<string> = new Set([
  'task_name_duplicate',
  'unknown_target',
  'unknown_function',
  'unknown_reference',
  'circular_reference',
  'unsupported_catalog',
  'expression_invalid',
  'expression_partial',
  'cron_invalid',
  'pattern_refused',
  'secret_not_named',
  'secret_stored',
  'unknown_secret',
])

/** The same by diagnostic code: codes that are about form elsewhere. */
const DIFFERENCES: readonly (readonly [says: RegExp, why: string])[] = [
  [/^(?:A wait|A timeout|`\w+`) must be between /, 'a sum of parts has no bounds in a schema'],
  [/are both named \$/, 'two names that must differ'],
  [/^A second case without `when`/, 'the number of cases without a key'],
  [/^`to` must not be shorter than `from`/, 'two durations compared'],
  [/^Two cases are named/, 'names that must differ'],
  [/^Two webhooks are named/, 'names that must differ'],
  [/^`while` cannot be combined with `concurrency`/, 'keys of two mappings'],
  [/must approve, and only \d+ may/, 'a number and the length of a list'],
  [/^The secret `.*` is declared twice/, 'names that must differ'],
]

const isOfForm = ({ code, message }: Diagnostic) =>
  !NOT_OF_FORM.has(code) && !DIFFERENCES.some(([says]) => says.test(message))

/** Diagnostics of form, and whether the schema accepts the definition. */
function judge(definition: unknown): { diagnostics: string[]; accepts: boolean } {
  const { diagnostics } = compile(JSON.stringify(definition), { catalogue: CATALOGUE })
  const formal = diagnostics
    .filter(isOfForm)
    .map(({ code, pointer, message }) => `${code} ${pointer} ${message}`)
  return { diagnostics: formal, accepts: fits(definition) }
}

const FOLDERS = ['test/conformance/flows/corpus', 'flows-dsl/examples']
const files = FOLDERS.flatMap((folder) =>
  readdirSync(folder)
    .filter((one) => one.endsWith('.yaml') && !one.endsWith('.cases.yaml'))
    .map((file) => `${folder}/${file}`),
)
const definitions: unknown[] = files.map((file) => parse(readFileSync(file, 'utf8')))

test.each(files.map((file, index) => [file, definitions[index]] as const))(
  '%s: is accepted',
  (_file, definition) => {
    expect(judge(definition), JSON.stringify(fits.errors)).toEqual({ diagnostics: [], accepts: true })
  },
)

type Property = readonly [holder: Record<string, unknown> | unknown[], key: string | number]

/** Every value within a value, by its parent. */
function propertiesIn(value: unknown): Property[] {
  if (typeof value !== 'object' || value === null) return []
  const entries: [string | number, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value)
  return entries.flatMap(([key, inner]) => [[value, key] as unknown as Property, ...propertiesIn(inner)])
}

const JUNK: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  7,
  '',
  'text',
  '${ .a }',
  'PT1S',
  'P1W2DT3H4M5.678S',
  'P1Y',
  'PT',
  [],
  {},
  [{}],
  { a: 1 },
  [1],
]

/** The same in both. */
function expectAgreement(definition: unknown): boolean {
  const { diagnostics, accepts } = judge(definition)
  const why = `${JSON.stringify(definition)}\n${diagnostics.join('\n')}\n${JSON.stringify(fits.errors?.at(-1))}`
  expect(diagnostics.length === 0, why).toBe(accepts)
  return accepts
}

test('any member left out: both reject it or neither does', () => {
  for (const [nth, definition] of definitions.entries())
    for (const at of propertiesIn(definition).keys()) {
      // In the suite one member of three, in each definition others.
      if ((nth + at) % repeated(3, 1) !== 0) continue
      const changed = structuredClone(definition)
      const property = propertiesIn(changed)[at]
      if (property !== undefined) apply(property, { do: 'delete' })
      expectAgreement(changed)
    }
})

test.each([
  'PT1S',
  'P1W',
  'P1W2DT3H4M5.678S',
  'P1Y',
  'P1M',
  'P',
  'PT',
  'P1DT',
  'PT1.2345S',
  'pt1s',
  '1s',
  '',
  ' PT1S',
])('duration %j: both agree', (wait) => {
  const document = { dsl: '1.0.3', namespace: 'a', name: 'b', version: '1.0.0' }
  expectAgreement({ document, do: [{ pause: { wait } }] })
})

type Change =
  | { readonly do: 'delete' | 'twice' }
  | { readonly do: 'rename'; readonly to: string }
  | { readonly do: 'replace'; readonly by: unknown }
  | { readonly do: 'add'; readonly key: string; readonly by: unknown }

const KEYS = [
  'if',
  'then',
  'when',
  'do',
  'set',
  'wait',
  'for',
  'with',
  'catch',
  'input',
  'export',
  'timeout',
  'retry',
  'as',
  'x',
]
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.constant({ do: 'delete' as const }),
  fc.record({ do: fc.constant('rename' as const), to: fc.constantFrom(...KEYS) }),
  fc.record({ do: fc.constant('replace' as const), by: fc.constantFrom(...JUNK) }),
  fc.record({ do: fc.constant('add' as const), key: fc.constantFrom(...KEYS), by: fc.constantFrom(...JUNK) }),
)

function apply([holder, key]: Property, how: Change): void {
  const map = holder as Record<string | number, unknown>
  if (how.do === 'replace') map[key] = structuredClone(how.by)
  else if (how.do === 'add') {
    const inner = map[key]
    const target = typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? inner : map
    if (!Array.isArray(target)) (target as Record<string, unknown>)[how.key] = structuredClone(how.by)
  } else if (Array.isArray(holder)) holder.splice(Number(key), 1)
  else {
    if (how.do === 'rename') map[how.to] = map[key]
    delete map[key]
  }
}

test('any member deleted, renamed, added or of another type: both reject it or neither does', () => {
  const seen = { accepted: 0, refused: 0 }
  const changes = fc.array(fc.tuple(fc.nat(), change), { minLength: 1, maxLength: 2 })
  fc.assert(
    fc.property(fc.constantFrom(...definitions), changes, (definition, made) => {
      const changed = structuredClone(definition)
      for (const [at, how] of made) {
        const properties = propertiesIn(changed)
        const property = properties[at % Math.max(1, properties.length)]
        if (property !== undefined) apply(property, how)
      }
      seen[expectAgreement(changed) ? 'accepted' : 'refused'] += 1
    }),
    { numRuns: repeated(500, 1_000), seed: 7 },
  )
  expect(Math.min(seen.accepted, seen.refused)).toBeGreaterThan(50)
})

test('every mapping of ours: is closed, and every member has a description', () => {
  const closed: string[] = []
  const walk = (value: unknown, at: string): void => {
    if (typeof value !== 'object' || value === null) return
    const schema = value as Record<string, unknown>
    if (
      schema['type'] === 'object' &&
      schema['properties'] !== undefined &&
      schema['additionalProperties'] === undefined
    )
      closed.push(at)
    for (const [key, inner] of Object.entries(schema)) if (key !== 'enum') walk(inner, `${at}/${key}`)
  }
  walk(editorSchema(CATALOGUE), '')
  // Attributes of events may be any; their names are checked.
  expect(closed).toEqual(['/$defs/eventFilter/properties/with'])
})
