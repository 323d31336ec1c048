/** `tenon schema apply|update`: creates and changes collections from a file; an error is one line and exit code 1. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const run = promisify(execFile)

test('schema apply and update: valid file: two collections; invalid file: one line, exit code 1', async () => {
  const workspace = await createTestWorkspace()
  const { url, clientId, clientSecret } = inject('tenon')
  const dir = await mkdtemp(join(tmpdir(), 'tenon-schema-'))
  const env = {
    ...process.env,
    ...{ TENON_URL: url, TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret, TENON_TOKEN: '' },
    ...{ TENON_WORKSPACE_ID: workspace.workspaceId, TENON_CALLER_CWD: dir },
  }
  const apply = async (content: unknown, name = 'apply') => {
    await writeFile(
      join(dir, 'schemas.json'),
      typeof content === 'string' ? content : JSON.stringify(content),
    )
    const words = ['src/cli/main.ts', 'schema', name, 'schemas.json']
    return run(process.execPath, words, { env })
  }
  try {
    const schema = { properties: { n: { type: 'integer' } } }
    const { stdout } = await apply([
      { collection: 'one', store: 'relational', schema },
      { collection: 'two', store: 'document', schema, mode: 'warn' },
    ])
    expect(stdout).toMatch(/^sch_\w+ one \(relational, enforce\)\nsch_\w+ two \(document, warn\)\n$/)
    const path = '/v1/collections/one/documents'
    expect((await call('POST', path, { as: workspace.service, body: { n: 'x' } })).status).toBe(422)
    const again = apply({ collection: 'one', store: 'relational', schema })
    await expect(again).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('conflict:') })
    const wider = { ...schema, title: 'wider' }
    const changed = await apply(
      { collection: 'one', store: 'relational', schema: wider, unique: [['n']] },
      'update',
    )
    expect(changed.stdout).toMatch(/^sch_\w+ one \(revision 1\)\n$/)
    for (const n of [1, 2]) await call('POST', path, { as: workspace.service, body: { n } })
    const narrow = { properties: { n: { type: 'integer', maximum: 1 } } }
    await expect(apply({ collection: 'one', schema: narrow }, 'update')).rejects.toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining('schema_incompatible:') },
    })
    await expect(apply({ collection: 'none' }, 'update')).rejects.toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining('none is not declared') },
    })
    await expect(apply('{')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is not JSON'),
    })
  } finally {
    await rm(dir, { recursive: true })
  }
})
