/** `tenon schema`: creates and changes collections from a file; an error is one line and exit code 1. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
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

test('schema export, plan and apply of a folder: each change with its effect, and nothing the second time', async () => {
  const workspace = await createTestWorkspace()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-schemas-'))
  const schemaVerb = (...args: string[]) =>
    runCommand(['schema', ...args], { env: operatorEnv(workspace), callerDir: dir })
  const file = (name: string) => join(dir, 'schemas', `${name}.json`)
  try {
    await writeFile(
      join(dir, 'first.json'),
      JSON.stringify({ collection: 'one', store: 'relational', schema: {} }),
    )
    await schemaVerb('apply', 'first.json')
    expect((await schemaVerb('export', 'schemas')).stdout).toBe('schemas/one.json\n')
    const unchanged = await schemaVerb('plan', 'schemas')
    expect([unchanged.code, unchanged.stdout]).toEqual([
      0,
      expect.stringMatching(/Fingerprint: [0-9a-f]{32}\n$/),
    ])
    const one = JSON.parse(await readFile(file('one'), 'utf8'))
    const schema = { properties: { n: { type: 'integer' } } }
    await writeFile(file('one'), JSON.stringify({ ...one, schema, indexes: [{ fields: ['n'] }] }))
    await writeFile(file('two'), JSON.stringify({ collection: 'two', store: 'relational', schema: {} }))
    const { stdout: planned } = await schemaVerb('plan', 'schemas')
    expect(planned).toMatch(
      /^one +validate +schema .*\none +rewrite +schema .*\none +index +indexes .*\ntwo +instant +collection /m,
    )
    const old = /Fingerprint: (\w+)/.exec(unchanged.stdout)?.[1] ?? ''
    const refused = await schemaVerb('apply', 'schemas', '--fingerprint', old)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('plan_outdated')])
    const fingerprint = /Fingerprint: (\w+)/.exec(planned)?.[1] ?? ''
    const applied = await schemaVerb('apply', 'schemas', '--fingerprint', fingerprint)
    expect([applied.code, applied.stdout]).toEqual([
      0,
      expect.stringMatching(/^sch_\w+ one \(revision 1\)\nsch_\w+ two \(revision 0\)\n$/),
    ])
    const again = await schemaVerb('apply', 'schemas')
    expect([again.code, again.stdout]).toEqual([0, 'Nothing to change.\n'])
    await writeFile(
      file('two'),
      JSON.stringify({
        collection: 'two',
        store: 'relational',
        schema: {},
        ttl: { field: '_created_at', after: '1d' },
      }),
    )
    const unsure = await schemaVerb('apply', 'schemas')
    expect([unsure.code, unsure.stderr]).toEqual([1, expect.stringContaining('Add --yes to confirm.')])
    expect((await schemaVerb('apply', 'schemas', '--yes')).code).toBe(0)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
