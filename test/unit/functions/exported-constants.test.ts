/** The static reader of the exports `tool`, `input` and `output` of a function: accepted and refused values with their positions, and hostile modules. */

import { afterAll, describe, expect, test } from 'vitest'
import { CORE_LIMITS } from '../../../src/core/limits.ts'
import { readModule } from '../../../src/features/functions/exported-constants.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { compileFunction } from '../../../src/features/functions/sandbox/compile.ts'
import { ThreadPool } from '../../../src/infra/thread-pool.ts'
import { threadMs } from '../../support/thread-time.ts'

const pool = new ThreadPool()
afterAll(() => pool.close())

const HANDLER = '\nexport default () => 1'

/** Compiles a module with a default export, and reads its constants. */
async function read(source: string) {
  const compiled = await compileFunction(source + HANDLER, 'test')
  if (compiled.diagnostics !== undefined) throw new Error(JSON.stringify(compiled.diagnostics))
  expect(compiled.exported).not.toEqual([])
  return readModule(compiled)
}

describe('export `tool`: read', () => {
  test('all members: in the names of the API', async () => {
    const { constants, diagnostics } = await read(`
      export const tool = { description: 'Quotes a price.\\nFor an order.', readOnly: true }
      export const input = {
        type: 'object',
        properties: { sku: { type: 'string', pattern: '^[A-Z]+$', enum: ["A", \`B\`] }, 'unit-price': { minimum: -1.5 } },
        required: ['sku'],
        additionalProperties: false,
      } as const satisfies object
      export const output = { $ref: '#/$defs/price', $defs: { price: { type: ['number', 'null'], default: null } } }`)
    expect(diagnostics).toEqual([])
    expect(constants).toEqual({
      tool: { description: 'Quotes a price.\nFor an order.', read_only: true },
      input_schema: {
        type: 'object',
        properties: {
          sku: { type: 'string', pattern: '^[A-Z]+$', enum: ['A', 'B'] },
          'unit-price': { minimum: -1.5 },
        },
        required: ['sku'],
        additionalProperties: false,
      },
      output_schema: { $ref: '#/$defs/price', $defs: { price: { type: ['number', 'null'], default: null } } },
    })
  })

  test.each([
    ['no member', 'export const tool = {}', { tool: {} }],
    [
      'declared before it is exported',
      'const tool = { readOnly: false }\nexport { tool }',
      { tool: { read_only: false } },
    ],
    [
      'exported by another name',
      'const other = { readOnly: true }\nexport { other as tool }',
      { tool: { read_only: true } },
    ],
    [
      'exported by a string',
      "const a = { readOnly: true }\nexport { a as 'tool' }",
      { tool: { read_only: true } },
    ],
    [
      'constants and enums by name',
      "enum Word { x = 'X' }\nconst b = true\nconst readOnly = b\nexport const tool = { readOnly, description: Word.x }",
      { tool: { read_only: true, description: 'X' } },
    ],
    [
      'input without a type: gets the one of an object',
      'export const input = { properties: { a: {} } }',
      { input_schema: { type: 'object', properties: { a: {} } } },
    ],
    [
      'output of a list: kept',
      "export const output = { type: 'array' }",
      { output_schema: { type: 'array' } },
    ],
    ['emoji', "export const tool = { description: '☀️ 😀' }", { tool: { description: '☀️ 😀' } }],
  ])('%s', async (_what, source, expected) => {
    expect(await read(source)).toEqual({ constants: expected, diagnostics: [] })
  })

  test('booleans as minifiers write them: read', () => {
    const code = 'const a={readOnly:!0},b={readOnly:!1};export{'
    const toolOf = (name: string) =>
      readModule({ code: `${code}${name} as tool};`, exported: ['tool'] }).constants.tool
    expect([toolOf('a'), toolOf('b')]).toEqual([{ read_only: true }, { read_only: false }])
  })
})

test.each([
  ['no such export', 'export default () => 1', false],
  ['a local of that name', 'const tool = {}\nexport default tool', false],
  ['a text like an export', 'export default "export{tool};"', false],
  ['another name with that word', 'export const tool2 = {}\nexport default 1', false],
  ['a type', 'export type tool = string\nexport default 1', false],
  ['the export', 'export const tool = {}\nexport default 1', true],
])('module with %s: tells if it exports `tool`: %s', async (_what, source, exportsTool) => {
  const exported = exportsTool ? ['tool'] : []
  expect(await compileFunction(source, 'test')).toMatchObject({ code: expect.any(String), exported })
})

describe('export `tool`: refused', () => {
  test.each([
    ['let', 'export let tool = {}', /must be a constant: `export const tool/],
    ['let', 'export let tool = {}', /must be a constant/],
    ['function', 'export function tool() {}', /must be a constant/],
    ['class', 'export class tool {}', /must be a constant/],
    ['enum', 'export enum tool { a }', /must be a literal/],
    ['destructured', 'export const { tool } = { tool: {} }', /must be a constant/],
    ['export of another module', "export { tool } from './tool.js'", /must be a constant/],
    ['export of a whole module', "export * as tool from './tool.js'", /must be a constant/],
    ['refers to a variable', 'let a = {}\nexport const tool = a', /must be a constant/],
    ['call', 'export const tool = Object.freeze({})', /`tool`: .* must be a literal.*; this is a call/],
    ['function within', 'export const input = { default: () => 1 }', /`input\.default`: .*a function/],
    ['getter', "export const tool = { get description() { return 'x' } }", /a getter/],
    ['method', 'export const tool = { input() {} }', /a function/],
    ['spread', 'const a = {}\nexport const tool = { ...a }', /a spread/],
    ['spread in a list', "export const input = { required: [...'a'] }", /required\[0\]`: .*a spread/],
    ['computed name', "export const tool = { ['input']: {} }", /a computed name/],
    ['prototype', 'export const tool = { __proto__: { readOnly: true } }', /a prototype/],
    ['prototype in quotes', "export const input = { '__proto__': {} }", /`input`: .*a prototype/],
    ['text with a substitution', 'export const tool = { description: `a${1}` }', /a substitution/],
    ['regular expression', 'export const tool = { description: /x/ }', /a regular expression/],
    ['bigint', 'export const input = { minimum: 1n }', /a bigint/],
    ['undefined', 'export const tool = { description: undefined }', /an expression/],
    ['infinity', 'export const input = { maximum: 1e999 }', /`Infinity`, which is no constant/],
    [
      'refers to a parameter of the host',
      'export const input = { const: globalThis }',
      /no constant of the module/,
    ],
    ['condition', 'export const tool = { readOnly: 1 > 0 }', /an expression/],
    ['list with a gap', 'export const input = { required: [, "a"] }', /a gap/],
    ['no object', "export const tool = 'x'", /`tool`: It must be an object/],
    [
      'misspelt member',
      'export const tool = { readonly: true }',
      /`tool\.readonly`: .*`readOnly`\? It takes desc/,
    ],
    [
      'unknown member',
      'export const tool = { idempotent: true }',
      /no such member\. It takes description and readOnly/,
    ],
    ['description: number', 'export const tool = { description: 1 }', /`description` must be a string/],
    ['description: empty', "export const tool = { description: ' ' }", /must not be empty/],
    ['description: too long', `export const tool = { description: '${'x'.repeat(2_001)}' }`, /at most 2000/],
    ['read-only: text', "export const tool = { readOnly: 'no' }", /`readOnly` must be true or false/],
    ['input: text', "export const input = 'x'", /`input`: A schema must be/],
    ['input: list', "export const input = { type: 'array' }", /the schema of an object/],
    ['input: any value', 'export const input = {}', /the schema of an object/],
    ['input: true', 'export const input = true', /must be an object/],
    ['input: property true', 'export const input = { properties: { a: true } }', /`a` in `properties`/],
    ['unknown keyword', "export const input = { properties: {}, tipe: 'x' }", /tipe.*Did you mean type/],
    ['unknown type', "export const output = { type: 'text' }", /no type `text`/],
    ['reference to nothing', "export const output = { $ref: '#/$defs/a' }", /`a` is not declared/],
    [
      'reference in a circle',
      "export const output = { $ref: '#/$defs/a', $defs: { a: { items: { $ref: '#/$defs/a' } } } }",
      /refers to itself/,
    ],
    ['backtracking pattern', String.raw`export const output = { pattern: '(a+)\\1' }`, /The pattern/],
    ['zero-width character', "export const tool = { description: 'a\u200bb' }", /U\+200B at 1/],
    ['tag characters', String.raw`export const tool = { description: 'a\u{e0041}' }`, /U\+E0041/],
    ['NUL', String.raw`export const output = { const: '\0' }`, /U\+0000/],
    ['half a surrogate pair', String.raw`export const output = { enum: ['\ud800'] }`, /U\+D800/],
    ['hidden name', "export const input = { properties: { 'a\u202e': {} } }", /U\+202E/],
    [
      'unknown syntax',
      'export const tool = {}\nconst a = /(/',
      /cannot be parsed|Invalid regular expression/,
    ],
  ])('%s', async (_what, source, message) => {
    const { constants, diagnostics } = await read(source)
    expect(constants).toEqual({})
    expect(diagnostics.map((fault) => fault.message).join('\n')).toMatch(message)
  })

  test('several faults: each at its location in the source', async () => {
    const { diagnostics } = await read(`interface Unused { a: string }
import lodash from 'lodash'
export const input = { type: 'object', properties: {
    sku: { type: 'txt' },
    count: { type: 'integer', description: name() } } }
export const tool = {
  input: {},
}
export const used = [lodash, () => import(\`node:fs\`), import('./other.js'), (name) => import(name)]`)
    expect(diagnostics.map(({ line, column, message }) => [line, column, message.slice(0, 60)])).toEqual([
      [2, 20, 'A function imports nothing but `tenon`, and this imports "lo'],
      [4, 18, expect.stringContaining('`input.properties.sku.type`')],
      [5, 44, expect.stringContaining('`input.properties.count.descr')],
      [7, 3, expect.stringContaining('`tool.input`: The export `tool` has')],
      [9, 43, expect.stringContaining('imports "no')],
      [9, 62, expect.stringContaining('imports "./')],
    ])
    expect(diagnostics[0]?.message).toContain('Deploy it with `npx tenon fn deploy`')
    expect(diagnostics[3]?.message).toContain('Export the schema as `input` itself')
  })

  test('imports of types and of the platform: none is a fault', async () => {
    const { diagnostics } = await read(`import type { Order } from './order.ts'
import { type Item } from 'shop'
import { Unused } from 'shop'
import { tenon } from 'tenon'
export const tool = {}
export const used: Order = [tenon, (item: Item & Unused) => item]`)
    expect(diagnostics).toEqual([])
  })

  test('a thousand faults: twenty are shown', async () => {
    const list = Array.from({ length: 1_000 }, (_, n) => `a${n}: 1`).join(',')
    expect((await read(`export const tool = { ${list} }`)).diagnostics).toHaveLength(
      CORE_LIMITS.diagnosticsReturnedMax,
    )
  })
})

describe('export `tool`: hostile', () => {
  const nested = (depth: number) => `${'{a:'.repeat(depth)}1${'}'.repeat(depth)}`
  const constants = Array.from({ length: 40 }, (_, n) => {
    const items = Array.from({ length: 10 }, () => (n === 0 ? '1' : `c${n - 1}`))
    return `const c${n} = [${items.join(',')}]`
  }).join('\n')

  test.each([
    ['nested a hundred times', `export const output = { const: ${nested(100)} }`, /nested deeper than 32/],
    ['constant within itself', 'const a = { a }\nexport const input = a', /nested deeper than 32/],
    [
      'constants that refer in a circle',
      'const a = b\nconst b = a\nexport const tool = a',
      /nested deeper than 32/,
    ],
    ['constants that grow exponentially', `${constants}\nexport const output = { enum: c10 }`, /16384/],
    ['text of 200 KB', `export const tool = { description: '${'x'.repeat(200_000)}' }`, /16384 characters/],
    ['list of 50,000', `export const output = { enum: [${'1,'.repeat(50_000)}1] }`, /16384 characters/],
  ])('%s: refused', async (_what, source, message) => {
    const { constants, diagnostics } = await read(source)
    expect(constants).toEqual({})
    expect(diagnostics[0]?.message).toMatch(message)
  })

  test('compiled module of 1 MB, nested 100,000 times: refused in a thread, which continues', async () => {
    const cpuMs = FUNCTION_LIMITS.constant.cpuMs
    const long = `const tool={description:"${'x'.repeat(1_000_000)}"};export{tool};`
    const deep = `const tool=${'['.repeat(100_000)}${']'.repeat(100_000)};export{tool};`
    const run = async (code: string) => {
      const input = { code, exported: ['tool'] }
      return JSON.stringify(await pool.run('a', { name: 'readModule', input, cpuMs }))
    }
    expect(await run(deep)).toContain('Not enough stack space')
    expect(await run(long)).toContain('more than 16384 characters')
    expect(await run('const tool={readOnly:true};export{tool};')).toContain('"tool":{"read_only":true}')
  })

  test.each(['//# sourceMappingURL=', 'export default ', 'export{default ', 'export{tool '])(
    'module that repeats %j: compiled in linear time',
    async (text) => {
      const source = `export const text = '${text.repeat(Math.floor(200_000 / text.length))}'${HANDLER}`
      const startedMs = threadMs()
      expect(await compileFunction(source, 'test')).toMatchObject({ exported: [] })
      // By regular expressions, seconds.
      expect(threadMs() - startedMs).toBeLessThan(300)
    },
  )
})
