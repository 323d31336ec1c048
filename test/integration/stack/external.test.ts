/** External servers: their URLs are used, their versions read, nothing is started. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { startStack } from '../../../stack/start.ts'

test('stack: all four URLs set: nothing is started', async () => {
  const { env, databaseUrl } = inject('tenon')
  const dir = await mkdtemp(join(tmpdir(), 'tenon-external-'))
  const stack = await startStack({
    dir,
    ephemeral: true,
    env: { ...process.env, ...env, DATABASE_URL: databaseUrl },
    onProgress: () => {},
  })
  try {
    expect(stack.servers.map(({ name, origin }) => [name, origin])).toEqual([
      ['postgres', 'external'],
      ['temporal', 'external'],
      ['seaweedfs', 'external'],
      ['valkey', 'external'],
    ])
    for (const { version, address, pid } of stack.servers) {
      expect(version).toMatch(/\d/)
      expect(address).not.toContain('@')
      expect(pid).toBeUndefined()
    }
    expect(stack.env['DATABASE_URL']).toBe(databaseUrl)
  } finally {
    await stack.stop()
    await rm(dir, { recursive: true, force: true })
  }
})
