/** `tenon fn` with folders: bundles npm packages, deploys at each change, runs on this machine, and shows runs and versions. */

import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { startCli } from '../../support/clients/cli-process.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'
import { slowdown } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
let dir: string
let env: NodeJS.ProcessEnv
const tenon = (...args: string[]) => runCommand(['fn', ...args], { env, callerDir: dir })

beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  env = { ...operatorEnv(workspace), TENON_DENO_BIN: inject('tenon').env['TENON_DENO_BIN'] }
  dir = await mkdtemp(join(tmpdir(), 'tenon-fn-'))
  const shout = join(dir, 'node_modules', 'shout')
  await mkdir(shout, { recursive: true })
  await writeFile(join(shout, 'package.json'), '{"name": "shout", "version": "1.0.0", "module": "index.js"}')
  await writeFile(join(shout, 'index.js'), 'export const shout = (text) => text.toUpperCase() + "!"')
  await mkdir(join(dir, 'greet'))
  await write('index.ts', GREETS)
  await write('names.ts', 'export const ANYBODY: string = "world"\n')
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const write = (file: string, text: string) => writeFile(join(dir, 'greet', file), text)

const GREETS = `import { shout } from 'shout'
import { ANYBODY } from './names.ts'
export const config = { timeout: '7s', scopes: ['collections:write'] }
export default async ({ name = ANYBODY, fail = false }, { log, tenon }) => {
  log('greeting', name)
  if (fail) throw new Error('no')
  const { id } = await tenon.collections.create('greeted', { name })
  return { message: shout('hello ' + name), stored: typeof id }
}
`

test('deploy a folder: npm package and files in one module; its configuration is that of the module', async () => {
  expect((await tenon('deploy', 'greet')).stdout).toMatch(/^greet v1 /)
  const invoked = await tenon('invoke', 'greet', '--input', '{"name": "Ada"}')
  expect(JSON.parse(invoked.stdout)).toEqual({ message: 'HELLO ADA!', stored: 'string' })
  const config = JSON.parse((await tenon('config', 'greet')).stdout)
  expect(config).toMatchObject({ timeout: '7s', scopes: ['collections:write'], memory_mb: 128 })
})

test('deploy with --config: its members win over those of the module', async () => {
  expect((await tenon('deploy', 'greet', '--config', '{"timeout": "9s"}')).stdout).toMatch(/^greet v2 /)
  const config = JSON.parse((await tenon('config', 'greet', '{"memory_mb": 256}')).stdout)
  expect(config).toMatchObject({ timeout: '9s', scopes: ['collections:write'], memory_mb: 256 })
})

test('deploy: another configuration was set since: the exported one is that of the function again', async () => {
  const deploy = () => tenon('deploy', 'greet', '--name', 'configured')
  await deploy()
  await tenon('config', 'configured', '{"timeout": "9s"}')
  expect((await deploy()).stdout).toMatch(/^configured v2 [0-9a-f]{12} /)
  expect(JSON.parse((await tenon('config', 'configured')).stdout)).toMatchObject({ timeout: '7s' })
  await tenon('delete', 'configured')
})

test('faults: of the bundler and of the platform at the place in the file of the folder', async () => {
  await write('broken.ts', 'import "nowhere"\n')
  const unresolved = await tenon('deploy', 'greet/broken.ts')
  expect(unresolved).toMatchObject({ code: 1, stdout: '' })
  expect(unresolved.stderr).toMatch(/^greet\/broken\.ts:1:\d+ nowhere is not installed/)
  await write(
    'broken.ts',
    "import { shout } from 'shout'\n\nexport const config = { timeuot: shout }\nexport default 1\n",
  )
  const unknown = await tenon('deploy', 'greet/broken.ts')
  expect(unknown.stderr).toMatch(/broken\.ts:3:\d+ .*timeuot/)
})

test.each([
  ['nowhere', 'nowhere is not installed: run npm install nowhere in greet.'],
  ['@some/where/else', '@some/where is not installed: run npm install @some/where in greet.'],
  [
    'npm:@some/where@1.2/else',
    "Write `from '@some/where/else'`, and run npm install @some/where@1.2 in greet.",
  ],
  ['npm:shout', "Write `from 'shout'`, and run npm install shout in greet."],
  [
    'node:fs',
    'Functions cannot import modules of Node.js such as node:fs. Use a package that runs in a browser.',
  ],
  [
    'fs/promises',
    'Functions cannot import modules of Node.js such as fs/promises. Use a package that runs in a browser.',
  ],
  ['shout/missing', 'Could not resolve "shout/missing"'],
  ['./missing.ts', 'Could not resolve "./missing.ts"'],
])('import of %s: says what to do', async (name, text) => {
  await write('imports.ts', `import ${JSON.stringify(name)}\nexport default 1\n`)
  expect((await tenon('deploy', 'greet/imports.ts')).stderr).toBe(`greet/imports.ts:1:8 ${text}\n`)
})

test('run: on this machine, in the sandbox, with the platform; its failure has the place in the file', async () => {
  const ran = await tenon('run', 'greet', '--input', '{"name": "Bo"}')
  expect(ran.stderr).toBe('| info  greeting Bo\n')
  expect(JSON.parse(ran.stdout)).toEqual({ message: 'HELLO BO!', stored: 'string' })
  const { body } = await call('POST', '/v1/collections/greeted/query', {
    as: workspace.service,
    body: { filter: { name: 'Bo' } },
  })
  expect(body.data).toHaveLength(1)
  const failed = await tenon('run', 'greet', '--input', '{"fail": true}')
  expect(failed).toMatchObject({ code: 1, stdout: '' })
  expect(failed.stderr).toContain('function_error at index.ts:6:')
})

test('run: objects are stored and read as by the deployed function, text without quotes', async () => {
  await write(
    'objects.ts',
    `export default async ({ bucket }, { tenon: { objects } }) => {
      const put = (key, ...rest) => objects.put(bucket, key, ...rest).then(({ size }) => size)
      const sizes = [await put('a.txt', 'hi'), await put('b.txt', 'hi', { content_type: 'text/csv' })]
      sizes.push(await put('c.json', { n: 1 }), await put('d.bin', new Uint8Array([0, 1, 255])))
      await put('e.bin', new Blob(['x'.repeat(600_000)]))
      const copied = await put('f.bin', await objects.get(bucket, 'e.bin'))
      const read = async (key) => (await objects.get(bucket, key)).text()
      return { sizes: [...sizes, copied], read: await Promise.all(['a.txt', 'b.txt', 'c.json'].map(read)) }
    }`,
  )
  const input = JSON.stringify({ bucket: await bucketOf(workspace) })
  await tenon('deploy', 'greet/objects.ts')
  for (const args of [
    ['invoke', 'objects'],
    ['run', 'greet/objects.ts'],
  ]) {
    const { stdout, stderr } = await tenon(...args, '--input', input)
    expect(JSON.parse(stdout || stderr)).toEqual({
      sizes: [2, 2, 7, 3, 600_000],
      read: ['hi', 'hi', '{"n":1}'],
    })
  }
})

test('runs and logs: newest runs with their failures, and the lines that they printed', async () => {
  await tenon('invoke', 'greet', '--input', '{"fail": true}')
  const listed = await tenon('runs', 'greet')
  expect(listed.stdout).toMatch(/failed +v2 +api .*function_error at index\.ts:6:\d+: no/)
  const logs = await tenon('logs', 'greet')
  expect(logs.stdout).toMatch(/run_\w+ info +greeting Ada\n/)
  expect(logs.stdout).toMatch(/run_\w+ failed function_error at index\.ts:6:\d+: no\n/)
})

test('aliases: set to one version or several, listed, called and removed', async () => {
  const alias = (...args: string[]) => tenon('alias', ...args)
  expect((await alias('set', 'greet', 'stable', 'v2')).stdout).toBe('stable  v2\n')
  expect((await alias('set', 'greet', 'canary', '1:1', '2:3')).stdout).toBe('canary  v1 25 %, v2 75 %\n')
  expect((await alias('list', 'greet')).stdout).toBe('canary  v1 25 %, v2 75 %\nstable  v2\n')
  expect(JSON.parse((await tenon('invoke', 'greet@stable')).stdout).message).toBe('HELLO WORLD!')
  expect(await alias('set', 'greet', 'stable', 'two')).toMatchObject({
    code: 1,
    stderr: 'two is not a version: write 3, or 3:90 for a weight of 90.\n',
  })
  await alias('remove', 'greet', 'stable')
  expect((await alias('list', 'greet')).stdout).toBe('canary  v1 25 %, v2 75 %\n')
})

test('redrive: one dead letter, then all others, with the version that is active now', async () => {
  await write('letters.ts', 'export default () => { throw new Error("no") }')
  await tenon('deploy', 'greet/letters.ts')
  const path = '/v1/functions/letters/invoke'
  const headers = { prefer: 'respond-async' }
  const ids: string[] = []
  for (let n = 0; n < 3; n++) {
    const { body } = await call('POST', path, { as: workspace.service, body: { n }, headers })
    ids.push(body.id)
  }
  const list = () => tenon('runs', 'letters').then(({ stdout }) => stdout)
  const count = (text: string, wanted: RegExp) => text.split('\n').filter((line) => wanted.test(line)).length
  await eventually(async () => count(await list(), / failed /) === 3 || undefined, 20_000)
  await write('letters.ts', 'export default ({ n }: { n: number }) => n')
  await tenon('deploy', 'greet/letters.ts')
  const [first = ''] = ids
  expect(await tenon('redrive', 'letters', first)).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^run_\w+ runs again as run_\w+\n$/),
  })
  expect((await tenon('redrive', 'letters', first)).stderr).toContain('The run was run again as run_')
  const others = await tenon('redrive', 'letters')
  expect(others.code).toBe(0)
  expect(
    others.stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split(' ')[0])
      .toSorted(),
  ).toEqual(ids.slice(1).toSorted())
  await eventually(async () => count(await list(), / completed .* redrive /) === 3 || undefined, 20_000)
  expect((await tenon('redrive', 'letters')).stderr).toBe('letters has no dead letters.\n')
})

test('versions: listed, activated, rolled back; a deleted function is gone', async () => {
  expect((await tenon('versions', 'greet')).stdout).toMatch(/v2 +yes[\s\S]*v1 +20/)
  expect((await tenon('rollback', 'greet')).stdout).toBe('greet v1\n')
  expect((await tenon('activate', 'greet', 'v2')).stdout).toBe('greet v2\n')
  expect((await tenon('list')).stdout).toMatch(/greet +v2/)
  expect(JSON.parse((await tenon('show', 'greet')).stdout)).toMatchObject({ name: 'greet', version: 2 })
  expect((await tenon('delete', 'greet')).stdout).toBe('greet deleted\n')
  expect((await tenon('show', 'greet')).stderr).toContain('no function greet')
})

test('dev and logs --follow: a change is deployed, and what it prints is shown', async () => {
  const started = startCli(['fn', 'dev', 'greet'], { env, callerDir: dir })
  try {
    await eventually(async () => (started.stdout().includes('greet v1') ? true : undefined), 20_000)
    const followed = startCli(['fn', 'logs', 'greet', '--follow'], { env, callerDir: dir })
    try {
      await write('names.ts', 'export const ANYBODY: string = "everybody"\n')
      const tookMs = await eventually(async () => {
        const [, ms] = /^greet v2 .* in (\d+) ms$/m.exec(started.stdout()) ?? []
        return ms
      }, 10_000)
      expect(Number(tookMs)).toBeLessThan(1_000 * slowdown())
      await tenon('invoke', 'greet')
      await eventually(
        async () => (followed.stdout().includes('greeting everybody') ? true : undefined),
        20_000,
      )
    } finally {
      await followed.stop()
    }
  } finally {
    await started.stop()
  }
})

test('init: writes a function that deploys and answers, and the types of the examples', async () => {
  const made = await tenon('init', 'fresh')
  expect(made.stdout).toBe('fresh/index.ts\nfresh/tenon.d.ts\n')
  const [written, example] = await Promise.all(
    [join(dir, 'fresh/tenon.d.ts'), 'examples/functions/tenon.d.ts'].map((file) => readFile(file, 'utf8')),
  )
  expect(written).toBe(example)
  expect((await tenon('deploy', 'fresh')).stdout).toMatch(/^fresh v1 /)
  expect(JSON.parse((await tenon('invoke', 'fresh')).stdout)).toEqual({ message: 'Hello, world!' })
  expect((await tenon('init', 'fresh')).stderr).toContain('already exists')
})
