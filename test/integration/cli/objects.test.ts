/** `tenon object`: files to objects and back. */

import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

test('command line: `tenon object put`, `get` and `presign`: a file round trip, also with links', async () => {
  const [workspace, other] = await Promise.all([
    createTestWorkspaceWithStorage(),
    createTestWorkspaceWithStorage(),
  ])
  const dir = await mkdtemp(join(tmpdir(), 'tenon-object-'))
  const options = { env: operatorEnv(workspace), callerDir: dir }
  const tenon = (...args: string[]) => runCommand(['object', ...args], options)
  try {
    const body = randomBytes(300_000)
    await writeFile(join(dir, 'in'), body)
    const target = `${await bucketOf(workspace)}/from cli/ü`
    const put = await tenon('put', target, 'in', '--type', 'image/png')
    expect(JSON.parse(put.stdout)).toMatchObject({ key: 'from cli/ü', size: 300_000 })
    await tenon('get', target, 'out')
    expect((await readFile(join(dir, 'out'))).equals(body)).toBe(true)
    const read = await fetch((await tenon('presign', target)).stdout.trim())
    expect(Buffer.from(await read.arrayBuffer()).equals(body)).toBe(true)
    const write = JSON.parse(
      (await tenon('presign', target, '--method', 'put', '--expires', '60', '--json')).stdout,
    )
    expect(write.method).toBe('PUT')
    expect(Date.parse(write.expires_at) - Date.now()).toBeLessThanOrEqual(60_000)
    expect((await fetch(write.url, { method: 'PUT', body: 'new' })).status).toBe(200)
    expect((await tenon('get', target)).stdout).toBe('new')
    expect(await tenon('get', `${await bucketOf(other)}/x`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('AccessDenied'),
    })
  } finally {
    await rm(dir, { recursive: true })
  }
})
