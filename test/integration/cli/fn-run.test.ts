/** `tenon fn run`: the limits of a deployed function hold for one that runs on this machine. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

let dir: string
let env: NodeJS.ProcessEnv
let [named, unnamed]: FakeServers[] = []
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-fn-run-'))
  env = { ...operatorEnv(await createTestWorkspace()), TENON_DENO_BIN: inject('tenon').env['TENON_DENO_BIN'] }
  ;[named, unnamed] = await Promise.all([FakeServers.open(), FakeServers.open()])
})
afterAll(async () => {
  await Promise.all([named?.close(), unnamed?.close(), rm(dir, { recursive: true, force: true })])
})

/** Runs a source. @returns its result, or what is printed of its failure, with lines of the code before it */
async function run(source: string, args: readonly string[] = [], more: NodeJS.ProcessEnv = {}) {
  await writeFile(join(dir, 'it.ts'), source)
  const options = { env: { ...env, ...more }, callerDir: dir }
  const { code, stdout, stderr } = await runCommand(['fn', 'run', 'it.ts', ...args], options)
  return code === 0 ? { result: JSON.parse(stdout), printed: stderr } : { failed: stderr }
}

test.each([
  [
    'time, as exported',
    "export const config = { timeout: '1s' }\nexport default () => { for (;;); }",
    'function_timeout: The function had not returned after 1000 ms.\n',
  ],
  [
    'memory, as exported',
    `export const config = { memory_mb: 64 }
     export default () => { const all = []; for (;;) all.push(new Uint8Array(8e6).fill(1)) }`,
    'function_out_of_memory: The function can use at most 64 MB.\n',
  ],
  [
    'files and environment',
    `export default () => {
       const denied = [() => Deno.readTextFileSync('${import.meta.filename}'), () => Deno.env.get('TENON_SERVICE_KEY')]
       throw new Error(denied.map((read) => { try { return read() } catch ({ name }) { return name } }).join())
     }`,
    /^function_error at \S*it\.ts:3:\d+: NotCapable,NotCapable\n$/,
  ],
  [
    'size of the result',
    "export default () => 'x'.repeat(1_048_577)",
    'function_output_too_large: The result has more than 1048576 bytes.\n',
  ],
  ['the missing default export', 'export const fetch = () => new Response()', /^state_conflict: .*default/],
  [
    'the number of calls',
    `export default async () => {
       const refusals = Array.from({ length: 1_001 }, () => fetch('http://x.test/').catch(({ code }) => code))
       throw new Error((await Promise.all(refusals)).slice(-2).join(', '))
     }`,
    /^function_error at \S*it\.ts:3:\d+: egress_refused, quota_exceeded\n$/,
  ],
])('limit of %s: as on the platform', async (_of, source, failed) => {
  expect(await run(source)).toEqual({
    failed: typeof failed === 'string' ? failed : expect.stringMatching(failed),
  })
})

const FETCHES = `export default ({ urls }) => Promise.all(
  urls.map((url) => fetch(url).then(({ status }) => status, ({ code }) => code)))`

test('fetch: reaches servers that `egress` names, private ones as well; others and those of `*` are refused', async () => {
  const urls = [`${named?.origin}/echo`, `${unnamed?.origin}/echo`, 'http://169.254.169.254/latest']
  const input = ['--input', JSON.stringify({ urls })]
  const config = (...egress: unknown[]) => ['--config', JSON.stringify({ egress })]
  const refused = 'egress_refused'
  expect(await run(FETCHES, [...input, ...config(named?.host)])).toMatchObject({
    result: [200, refused, refused],
  })
  expect(await run(FETCHES, [...input, ...config('*')])).toMatchObject({
    result: [refused, refused, refused],
  })
  expect(unnamed?.requests).toEqual([])
})

test('secrets: variables of the environment; missing ones are named, and values are not printed', async () => {
  const source = `export const config = { secrets: ['SHOP_KEY', 'BANK_KEY'] }
    export default (_, { secrets, log }) => { log(secrets.SHOP_KEY); return [secrets.BANK_KEY, secrets.SHOP_KEY.length] }`
  expect(await run(source, [], { SHOP_KEY: 'a shop key' })).toEqual({
    failed: 'Set the environment variable BANK_KEY to the value of the secret.\n',
  })
  expect(await run(source, [], { SHOP_KEY: 'a shop key', BANK_KEY: 'a bank key' })).toEqual({
    result: ['***', 10],
    printed: '| info  ***\n',
  })
})

const ORDER = `export const input = { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] }
export const output = { type: 'object', properties: { price: { type: 'number' } }, required: ['price'] }
export default ({ count }) => (count > 9 ? {} : { price: 4 * count })`

test.each([
  ['what is required', '{"count": 2}', { result: { price: 8 }, printed: '' }],
  [
    'less than that',
    '{}',
    {
      failed: 'validation_failed: The input does not match the schema of the function: it has no `count`.\n',
    },
  ],
  [
    'another type',
    '{"count": "two"}',
    { failed: expect.stringMatching(/^validation_failed: .* \/count .*integer/) },
  ],
  [
    'a result that does not fit',
    '{"count": 10}',
    {
      failed:
        'function_output_invalid: The result does not match the schema of the function: it has no `price`.\n',
    },
  ],
  [
    '65 levels',
    `${'['.repeat(65)}${']'.repeat(65)}`,
    { failed: 'validation_failed: input is nested deeper than 64.\n' },
  ],
  [
    'more than a megabyte',
    JSON.stringify({ text: 'x'.repeat(1_048_576) }),
    { failed: expect.stringMatching(/^body_too_large: .*1048576/) },
  ],
])('input with %s: held to the exported schemas and to the limits', async (_of, input, expected) => {
  expect(await run(ORDER, ['--input', input])).toEqual(expected)
})

test.each([
  ['{"timeout": "20m"}', /^validation_failed: timeout lies between 1s and 900s/],
  ['{"memory_mb": 4096}', /^validation_failed: .*memory_mb/],
  ['{"memory": 128}', /^validation_failed: .*memory/],
  ['{"egress": ["http://127.0.0.1/"]}', /^validation_failed: egress\.0: /],
  ['{"retries": 1}', /^validation_failed: retries: /],
  ['[]', /^validation_failed: /],
])('--config %s: refused, as by a deployment', async (config, failed) => {
  expect(await run('export default () => 1', ['--config', config])).toEqual({
    failed: expect.stringMatching(failed),
  })
})
