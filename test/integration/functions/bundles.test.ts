/** Bundles: their imports, their source maps, and hostile ones; a deployment stays within its limits. */

import { beforeAll, describe, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const deploy = (source: string, more: object = {}) =>
  call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name: unique('b'), source, ...more },
  })

const invoke = (id: string, input: unknown = {}) =>
  call('POST', `/v1/functions/${id}/invoke`, { as: workspace.service, body: input })

/** A map of whole lines: the nth line of the bundle is the nth line of the nth source. */
const mapOf = (sources: readonly (string | null)[], lines = sources.length) =>
  JSON.stringify({
    version: 3,
    sources,
    mappings: Array.from({ length: lines }, (_, n) => (n === 0 ? 'AAAA' : 'ACCA')).join(';'),
  })

describe('imports', () => {
  test('of anything but `tenon`: all refused at once, each at its place', async () => {
    const { status, body } = await deploy(`import type { A } from 'types-are-erased'
import axios from 'axios'
export * from './other.js'
export default async (a: A) => [a, axios, await import('node:fs')]`)
    expect([status, body.code]).toEqual([422, 'function_invalid'])
    expect(
      body.diagnostics.map(({ line, message }: { line: number; message: string }) => [line, message]),
    ).toEqual([
      [2, expect.stringMatching(/imports "axios"\. Deploy it with `npx tenon fn deploy`.*npm packages/)],
      [3, expect.stringMatching(/imports "\.\/other\.js"\. Deploy .* its files/)],
      [4, expect.stringMatching(/imports "node:fs"\. Functions have neither Node modules/)],
    ])
  })

  test('in a bundle: shown at their places in the bundled files', async () => {
    const source = "const a = 1;\nimport b from 'b'; export default () => [a, b]"
    const { body } = await deploy(source, {
      source_map: mapOf(['src/a.ts', '../../../home/ada/app/src/b.ts']),
    })
    expect(body.diagnostics).toEqual([
      { line: 2, column: 1, file: 'home/ada/app/src/b.ts', message: expect.any(String) },
    ])
    expect(body.detail).toMatch(/^home\/ada\/app\/src\/b\.ts:2:1 /)
  })
})

describe('source map', () => {
  const THROWS = 'const fail = () => {\nthrow new TypeError("no")\n}\nexport default () => fail()'

  test.each([
    ['webpack://app/./src/fail.ts', 'src/fail.ts'],
    ['file:///home/ada/secret-project/src/fail.ts', 'fail.ts'],
    ['/home/ada/app/node_modules/@x/y/index.js', 'node_modules/@x/y/index.js'],
    ['C:\\Users\\ada\\fail.ts', 'fail.ts'],
    ['https://evil.example/../../x.js?token=1', 'x.js'],
    ['a\u202eb.ts', 'unknown'],
    ['data:text/javascript,secret', 'unknown'],
  ])('source %s: an error shows it as %s', async (name, file) => {
    const made = await deploy(THROWS, { source_map: mapOf(['a.ts', name, 'c.ts', 'd.ts']) })
    expect(made.status).toBe(201)
    const { status, body } = await invoke(made.body.id)
    expect([status, body.code]).toEqual([502, 'function_error'])
    expect(body.error).toEqual({ name: 'TypeError', line: 2, column: 1, file })
  })

  test.each([
    ['no JSON', '{', /must be JSON/],
    ['nested a million times', '['.repeat(1_000_000), /must be JSON|too long/],
    ['another version', '{"version":2}', /version: 3/],
    ['null', 'null', /version: 3/],
    ['sections', '{"version":3,"sections":[],"sources":[],"mappings":""}', /no `sections`/],
    ['sources that are no list', '{"version":3,"sources":{"length":1},"mappings":""}', /`sources` must be/],
    ['no base 64', '{"version":3,"sources":["a"],"mappings":"AA*A"}', /no segment/],
    ['endless number', `{"version":3,"sources":["a"],"mappings":"${'g'.repeat(1_000)}"}`, /no segment/],
    ['negative line', '{"version":3,"sources":["a"],"mappings":"AADA"}', /negative/],
    ['source beyond the list', '{"version":3,"sources":["a"],"mappings":"AEAA"}', /not in `sources`/],
  ])('%s: refused', async (_what, source_map, detail) => {
    const { status, body } = await deploy('export default () => 1', { source_map })
    expect([status, body.code, body.detail]).toEqual([
      400,
      'validation_failed',
      expect.stringMatching(detail),
    ])
    expect(body.errors[0].pointer).toBe('/source_map')
  })

  test('a million segments: read', async () => {
    const map = { version: 3, sources: ['a.ts'], mappings: 'AAAA,'.repeat(1_000_000) }
    expect((await deploy('export default () => 1', { source_map: JSON.stringify(map) })).status).toBe(201)
  })
})

describe('size', () => {
  test('5 MiB on few lines: deployed and called; an error has its place', async () => {
    const line = `const x = (a) => [${'a.x ? { k: a } : [a, "t"],'.repeat(200_000)}]; export { x };`
    const source = `${line}\nexport default ({ fail }) => { if (fail) throw new Error("here"); return 1 }`
    expect(source.length).toBeGreaterThan(5_200_000)
    const made = await deploy(source, { config: { memory_mb: 512 } })
    expect([made.status, made.body.code]).toEqual([201, undefined])
    expect((await invoke(made.body.id)).body).toBe(1)
    expect((await invoke(made.body.id, { fail: true })).body.error).toEqual({
      name: 'Error',
      line: 2,
      column: 48,
    })
  })

  test('above 5 MiB: refused', async () => {
    const { status, body } = await deploy(`export default () => "${'ä'.repeat(2_700_000)}"`)
    expect([status, body.code, body.detail]).toEqual([
      400,
      'validation_failed',
      expect.stringMatching(/5242880/),
    ])
  })

  test.each([
    ['5 MB of [', '['.repeat(5_000_000)],
    ['a function in a function, 300,000 times', `export default ${'()=>'.repeat(300_000)}1`],
    [
      'an import within 100,000 brackets',
      `export default ${'['.repeat(100_000)}import('x')${']'.repeat(100_000)}`,
    ],
  ])('%s: refused, and the platform goes on', async (_what, source) => {
    const { status, body } = await deploy(source)
    expect([status, body.code]).toEqual([422, 'function_invalid'])
    expect((await deploy('export default () => 1')).status).toBe(201)
  })
})
