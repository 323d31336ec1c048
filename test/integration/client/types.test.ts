/** `tenon types`: what it writes of declared collections is checked by the compiler, in a program that uses the client. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const ROOT = new URL('../../../', import.meta.url).pathname

let ws: TestWorkspace
let dir: string
beforeAll(async () => {
  ws = await createTestWorkspace()
  dir = await mkdtemp(join(tmpdir(), 'tenon-types-'))
  const text = { type: 'string' }
  const id = { type: 'string', format: 'uuid' }
  const declare = async (collection: string, schema: object, more = {}) => {
    const body = { workspace_id: ws.workspaceId, collection, store: 'relational', schema, ...more }
    expect((await call('POST', '/v1/schemas', { as: ws.operator, body })).status).toBe(201)
  }
  const status = { enum: ['open', 'paid'], description: 'Ends with */ in its text.' }
  await declare('courts', {
    properties: { name: text, 'per hour': { type: ['number', 'null'] } },
    required: ['name'],
  })
  await declare(
    'bookings',
    {
      properties: {
        court_id: id,
        status,
        tags: { type: 'array', items: text },
        place: { properties: { x: { type: 'integer' } } },
      },
    },
    { references: [{ field: 'court_id', collection: 'courts', inverse: 'bookings' }] },
  )
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const run = (...args: string[]) => runCommand(['types', ...args], { env: operatorEnv(ws), callerDir: dir })

/** The errors of a program, a line each. */
async function errorsOf(program: string): Promise<readonly string[]> {
  await writeFile(join(dir, 'program.ts'), program)
  const options = {
    target: 'es2022',
    lib: ['es2023', 'dom', 'dom.iterable'],
    module: 'nodenext',
    strict: true,
    noEmit: true,
  }
  const config = {
    compilerOptions: {
      ...options,
      types: [],
      allowImportingTsExtensions: true,
      exactOptionalPropertyTypes: true,
    },
    files: ['program.ts'],
  }
  await writeFile(join(dir, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(dir, 'package.json'), '{"type": "module"}')
  const checked = promisify(execFile)(join(ROOT, 'node_modules/.bin/tsc'), ['-p', dir]).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  )
  return (await checked).split('\n').filter((line) => /error TS/.test(line))
}

const program = (body: string) => `
import { createClient, type DocumentOf } from '${ROOT}client/src/index.ts'
import type { Collections } from './tenon-types.ts'
const tenon = createClient<Collections>({ url: 'http://x', apikey: 'k' })
export type Court = DocumentOf<Collections['courts']>
${body}
`

test('the compiler accepts right uses of declared fields and references, and refuses wrong ones', async () => {
  expect(await run()).toMatchObject({ code: 0, stdout: 'tenon-types.ts (2 collections)\n' })
  const right = `
    const made = await tenon.from('bookings').create({ court_id: 'x', status: 'open', tags: ['a'] })
    export const version: number = made._version
    const found = await tenon.from('bookings').where({ status: { in: ['open'] }, 'place.x': 1 }).order('status').expand('court').first()
    export const name: string | undefined = found?._expand.court?.name
    const court = await tenon.from('courts').expand('bookings').first()
    export const first: 'open' | 'paid' | undefined = court?._expand.bookings[0]?.status
    const some = await tenon.from('courts').select('name').first()
    export const selected: string | undefined = some?.name
    export const other: unknown = (await tenon.from('undeclared').get('x'))['anything']
  `
  expect(await errorsOf(program(right))).toEqual([])
  const wrong = [
    `await tenon.from('bookings').create({ status: 'late' })`,
    `await tenon.from('bookings').where({ statsu: 'open' }).first()`,
    `await tenon.from('bookings').where({ status: 'late' }).first()`,
    `await tenon.from('bookings').expand('courts').first()`,
    `await tenon.from('courts').create({})`,
    `(await tenon.from('courts').select('name').first())?.['per hour']`,
    `await tenon.tenants.get({})`,
  ]
  for (const line of wrong) expect(await errorsOf(program(line)), line).not.toEqual([])
})

test('a file that was edited by hand stays, and one that was not is replaced', async () => {
  await run()
  const file = join(dir, 'tenon-types.ts')
  const written = await readFile(file, 'utf8')
  expect((await run()).stdout).toBe('tenon-types.ts (2 collections, unchanged)\n')
  await writeFile(file, `${written}export type Mine = string\n`)
  expect(await run()).toMatchObject({ code: 1, stderr: expect.stringContaining('was edited by hand') })
  expect(await readFile(file, 'utf8')).toContain('Mine')
  expect((await run('--force')).code).toBe(0)
  expect(await readFile(file, 'utf8')).toBe(written)
  expect((await run('--out', '-')).stdout).toBe(written)
})
