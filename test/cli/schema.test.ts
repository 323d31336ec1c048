/** `tenon schema apply`: a file becomes collections; a fault is one line and exit code 1. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { aRoom, call } from '../support/tenants.ts'

const run = promisify(execFile)

test('a file of two declarations, then a broken one', async () => {
  const room = await aRoom()
  const { url, clientId, clientSecret } = inject('tenon')
  const dir = await mkdtemp(join(tmpdir(), 'tenon-schema-'))
  const env = {
    ...process.env,
    ...{ TENON_URL: url, TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret, TENON_TOKEN: '' },
    ...{ TENON_WORKSPACE_ID: room.workspaceId, TENON_CALLER_CWD: dir },
  }
  const apply = async (content: unknown) => {
    await writeFile(
      join(dir, 'schemas.json'),
      typeof content === 'string' ? content : JSON.stringify(content),
    )
    return run(process.execPath, ['--import', 'tsx', 'src/cli/main.ts', 'schema', 'apply', 'schemas.json'], {
      env,
    })
  }
  try {
    const schema = { properties: { n: { type: 'integer' } } }
    const { stdout } = await apply([
      { collection: 'one', store: 'relational', schema },
      { collection: 'two', store: 'document', schema, mode: 'warn' },
    ])
    expect(stdout).toMatch(/^sch_\w+ one \(relational, enforce\)\nsch_\w+ two \(document, warn\)\n$/)
    const path = '/v1/collections/one/documents'
    expect((await call('POST', path, { as: room.service, body: { n: 'x' } })).status).toBe(422)
    const again = apply({ collection: 'one', store: 'relational', schema })
    await expect(again).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('conflict:') })
    await expect(apply('{')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is not JSON'),
    })
  } finally {
    await rm(dir, { recursive: true })
  }
})
