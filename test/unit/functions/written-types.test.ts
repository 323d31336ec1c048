/** The types that `tenon fn init` writes: they admit the examples of the page, and every method with every option. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findMethod } from '../../../src/activities/function/platform-methods.ts'

const PAGE = 'docs/functions.md'
const HANDLERS = `import type { Context } from 'tenon'
type Handler = (input: any, context: Context) => unknown
type HttpHandler = (request: Request, context: Context) => Response | Promise<Response>
`

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-types-'))
  await symlink(resolve('node_modules'), join(dir, 'node_modules'))
  await writeFile(join(dir, 'tenon.d.ts'), await readFile('examples/functions/tenon.d.ts'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

/** Checks modules as an editor does. @returns the errors of the compiler */
async function errorsOf(modules: Readonly<Record<string, string>>): Promise<string[]> {
  const files = Object.keys(modules)
  await Promise.all(files.map((file) => writeFile(join(dir, file), modules[file] ?? '')))
  const options = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--types',
    '',
    '--lib',
    'es2024,dom,dom.iterable',
  ]
  const args = [...options, '--module', 'esnext', '--moduleResolution', 'bundler', 'tenon.d.ts', ...files]
  const { stdout } = await promisify(execFile)(resolve('node_modules/.bin/tsc'), args, { cwd: dir }).catch(
    (error: { stdout: string }) => error,
  )
  return stdout.split('\n').filter((line) => line !== '')
}

/** Declares the handlers, so that their arguments have types, unless the module imports these types itself. */
const typed = (source: string) =>
  source.includes("from 'tenon'")
    ? source
    : HANDLERS +
      source
        .replace('export default ', 'export const main: Handler = ')
        .replace('export const fetch = ', 'export const fetch: HttpHandler = ')

test('examples of the page: whole modules, and correct by the types', async () => {
  const text = await readFile(PAGE, 'utf8')
  const blocks = [...text.matchAll(/^```[jt]s\n(.*?)^```$/gms)].map(([, block = '']) => block)
  expect(blocks.length).toBeGreaterThan(6)
  for (const block of blocks) expect(block).toMatch(/^export (default|const fetch) /m)
  const named = blocks.map((block, at) => [`example-${at}.ts`, typed(block)] as const)
  expect(await errorsOf(Object.fromEntries(named))).toEqual([])
})

/** Arguments whose schemas have several forms. */
const SAMPLES: Readonly<Record<string, string>> = {
  content: `'text'`,
  metadata: `{ n: 'text' }`,
  count: `'exact'`,
  filters: `[['n', 'gte.2']]`,
  select: `'n'`,
  fit: `'cover'`,
  format: `'webp'`,
  sort: '{ n: -1 }',
  group: `['n']`,
  measures: `{ total: { sum: 'n' } }`,
  ops: `[{ collection: 'a', op: 'create', data: { n: 1 } }]`,
}
const BY_TYPE: Readonly<Record<string, string>> = {
  string: `'a'`,
  integer: '1',
  boolean: 'true',
  object: '{ n: 1 }',
  none: '{ n: 1 }',
}

/** A call with every argument and every option. */
function callOf(name: string): string {
  const { operation, signature } = findMethod(name)
  const fields: Readonly<Record<string, { type?: string }>> = operation.input.properties
  const sample = (field: string) => SAMPLES[field] ?? BY_TYPE[fields[field]?.type ?? 'none']
  const [, positions = '', options = ''] = /^[^(]+\(([^{)]*)(?:\{ (.*) \}\?)?\)$/.exec(signature) ?? []
  const samples = [...positions.matchAll(/\w+/g)].map(([field]) => sample(field))
  const more = [...options.matchAll(/\w+/g)].map(([field]) => `${field}: ${sample(field)}`)
  return `await tenon.${name}(${[...samples, ...(more.length > 0 ? [`{ ${more.join(', ')} }`] : [])].join(', ')})`
}

test('methods: admitted with every option of their operations, and no other', async () => {
  const names = /The methods of tenon are (.*)\./.exec(messageOf(() => findMethod('none')))?.[1]?.split(', ')
  expect(names).toHaveLength(19)
  const calls = names?.map(callOf).join('\n')
  const source = `import { tenon } from 'tenon'\n${calls}\n`
  expect(await errorsOf({ 'calls.ts': source })).toEqual([])
  const wrong = `import { tenon } from 'tenon'\nawait tenon.collections.get('a', 'b', { selct: 'c' })\n`
  expect(await errorsOf({ 'wrong.ts': wrong })).toEqual([expect.stringContaining("'selct' does not exist")])
})

function messageOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    return (error as Error).message
  }
  return ''
}
