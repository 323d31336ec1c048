/** `tenon schema`: creates and changes collections from a file; an error is one line and exit code 1. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('schema apply and update: valid file: two collections, also twice; invalid file: one line, exit code 1', async () => {
  const workspace = await createTestWorkspace()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-schema-'))
  const options = { env: operatorEnv(workspace), callerDir: dir }
  const apply = async (content: unknown, name = 'apply') => {
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    await writeFile(join(dir, 'schemas.json'), text)
    return runCommand(['schema', name, 'schemas.json'], options)
  }
  const schemaVerb = (...args: string[]) => runCommand(['schema', ...args], options)
  try {
    const schema = { properties: { n: { type: 'integer' } } }
    const { stdout } = await apply([
      { collection: 'one', store: 'relational', schema },
      { collection: 'two', store: 'document', schema, mode: 'warn' },
    ])
    expect(stdout).toMatch(/^sch_\w+ one \(relational, enforce\)\nsch_\w+ two \(document, warn\)\n$/)
    const path = '/v1/collections/one/documents'
    expect((await call('POST', path, { as: workspace.service, body: { n: 'x' } })).status).toBe(422)
    const again = await apply({ collection: 'one', store: 'relational', schema })
    expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/^sch_\w+ one \(revision \d+\)\n$/)])
    expect((await schemaVerb('list')).stdout).toMatch(
      /^one +relational +enforce +sch_\w+\ntwo +document +warn /m,
    )
    expect(JSON.parse((await schemaVerb('show', 'two')).stdout)).toMatchObject({
      collection: 'two',
      mode: 'warn',
    })
    expect((await schemaVerb('delete', 'two')).stdout).toBe('two deleted\n')
    const wider = { ...schema, title: 'wider' }
    const changed = await apply(
      { collection: 'one', store: 'relational', schema: wider, unique: [['n']] },
      'update',
    )
    expect(changed.stdout).toMatch(/^sch_\w+ one \(revision \d\)\n$/)
    for (const n of [1, 2]) await call('POST', path, { as: workspace.service, body: { n } })
    await call('POST', '/v1/collections/late/documents', { as: workspace.service, body: { n: 1 } })
    const late = await apply({
      collection: 'late',
      store: 'relational',
      schema,
      indexes: [{ fields: ['n'] }],
    })
    expect(late.stdout).toMatch(/^sch_\w+ late \(relational, enforce\)\n$/)
    const narrow = { properties: { n: { type: 'integer', maximum: 1 } } }
    const refusals = [
      [await apply({ collection: 'one', schema: narrow }, 'update'), 'schema_incompatible:'],
      [await apply({ collection: 'none' }, 'update'), 'none is not declared'],
      [await apply('{'), 'is not JSON'],
    ] as const
    for (const [refused, reason] of refusals)
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining(reason) })
  } finally {
    await rm(dir, { recursive: true })
  }
})
