/** `tenon object`: pipes, lists, large files that go on where they broke off, and folders that become equal. */

import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { startCuttingProxy } from '../../support/servers/cutting-proxy.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const MIB = 1_048_576
/** Of one request of an upload, in bytes. */
const REQUEST_BYTES = 24 * MIB
let workspace: TestWorkspace
let bucket: string
let dir: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  dir = await mkdtemp(join(tmpdir(), 'tenon-objects-'))
})
afterAll(() => rm(dir, { recursive: true }))

const tenon = (args: readonly string[], env: Record<string, string> = {}) =>
  runCommand(['object', ...args], {
    env: { ...operatorEnv(workspace), XDG_CACHE_HOME: join(dir, 'cache'), ...env },
    callerDir: dir,
  })
const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest('hex')
const read = async (key: string) => {
  const response = await fetch(`${inject('tenon').url}/v1/objects/${bucket}/${key}`, {
    headers: workspace.service,
  })
  return Buffer.from(await response.arrayBuffer())
}

test('`ls`, `cp`, `mv`, `rm`: what the API does, and its refusals as exit codes', async () => {
  for (const key of ['docs/a.txt', 'docs/b/c.txt'])
    await call('PUT', `/v1/objects/${bucket}/${key}`, { as: workspace.service, body: 'x' })
  expect((await tenon(['cp', `${bucket}/docs/a.txt`, `${bucket}/docs/d.txt`])).code).toBe(0)
  expect((await tenon(['mv', `${bucket}/docs/d.txt`, `${bucket}/docs/e.txt`])).code).toBe(0)
  const listed = JSON.parse((await tenon(['ls', `${bucket}/docs/`, '--json'])).stdout)
  expect(listed.prefixes).toEqual(['docs/b/'])
  expect(listed.objects.map(({ key }: { key: string }) => key)).toEqual(['docs/a.txt', 'docs/e.txt'])
  expect((await tenon(['rm', `${bucket}/docs/none`])).code).toBe(1)
  expect((await tenon(['rm', `${bucket}/docs/a.txt`])).code).toBe(0)
  expect((await tenon(['rm', `${bucket}/docs/`, '--recursive'])).stdout).toBe('2 objects deleted\n')
  expect((await tenon(['ls', `${bucket}/docs/`])).stdout).not.toContain('docs/')
  expect(await tenon(['rm', bucket])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('bucket/key'),
  })
})

test('pipes: `put -` and `get` without a file: the bytes, also of none', async () => {
  const env = operatorEnv(workspace)
  for (const input of ['from a pipe', '']) {
    expect((await runCommand(['object', 'put', `${bucket}/pipe.txt`, '-'], { env, input })).code).toBe(0)
    expect((await runCommand(['object', 'get', `${bucket}/pipe.txt`], { env })).stdout).toBe(input)
  }
})

test('large file: cut off in both directions and sent again: each command goes on, and the bytes are equal', async () => {
  const bytes = randomBytes(70 * MIB + 5)
  await writeFile(join(dir, 'big'), bytes)
  const cutting = await startCuttingProxy(inject('tenon').url, { sent: 40 * MIB, received: 30 * MIB })
  try {
    const at = { TENON_URL: cutting.url, TENON_QUIET: '1' }
    const put = await tenon(['put', `${bucket}/big`, 'big', '--type', 'video/mp4'], at)
    expect([put.code, put.stderr]).toEqual([0, ''])
    expect(JSON.parse(put.stdout)).toMatchObject({ key: 'big', size: bytes.length })
    expect((await tenon(['get', `${bucket}/big`, 'back'], at)).code).toBe(0)
    expect(md5(await readFile(join(dir, 'back')))).toBe(md5(bytes))
    expect(cutting.cuts).toBe(2)
    // What was acknowledged before the cut was not sent again; what was not is one request at most.
    expect(cutting.sent).toBeLessThan(bytes.length + REQUEST_BYTES + 2 * MIB)
    expect(cutting.received).toBeLessThan(bytes.length + 8 * MIB)
  } finally {
    await cutting.close()
  }
})

test('`sync` up and down: equal sides, odd names, `--dry-run`, `--delete`, and a second run that does nothing', async () => {
  const files = { 'a.txt': 'a', 'ü b/c?#%.json': '{}', empty: '', 'deep/er/x': 'x' }
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(dir, 'from', name, '..'), { recursive: true })
    await writeFile(join(dir, 'from', name), text)
  }
  const names = Object.keys(files).sort()
  const up = ['sync', './from', `${bucket}/site`, '--json']
  const report = async (args: string[]) => JSON.parse((await tenon(args)).stdout)
  expect((await report([...up, '--dry-run'])).uploaded.sort()).toEqual(names)
  expect((await tenon(['ls', `${bucket}/site/`])).stdout).not.toContain('a.txt')
  expect((await report(up)).uploaded.sort()).toEqual(names)
  expect(await report(up)).toMatchObject({ uploaded: [], unchanged: 4 })
  expect(String(await read('site/%C3%BC%20b/c%3F%23%25.json'))).toBe('{}')
  const down = ['sync', `${bucket}/site`, './to', '--json']
  expect((await report(down)).downloaded.sort()).toEqual(names)
  expect(String(await readFile(join(dir, 'to', 'ü b/c?#%.json')))).toBe('{}')
  await writeFile(join(dir, 'from', 'a.txt'), 'b')
  await rm(join(dir, 'from', 'empty'))
  expect(await report(up)).toMatchObject({ uploaded: ['a.txt'], deleted: [] })
  expect(await report([...up, '--delete'])).toMatchObject({ uploaded: [], deleted: ['empty'] })
  expect(await report([...down, '--delete'])).toMatchObject({ downloaded: ['a.txt'], deleted: ['empty'] })
  expect(String(await readFile(join(dir, 'to', 'a.txt')))).toBe('b')
  // A key that is no name of a file fails alone.
  await call('PUT', `/v1/objects/${bucket}/site//etc/x`, { as: workspace.service, body: 'x' })
  expect(await tenon(down)).toMatchObject({ code: 2, stderr: expect.stringContaining('no name of a file') })
  expect((await tenon(['sync', './from', './to'])).code).toBe(1)
})
