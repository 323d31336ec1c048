/** The function compiler discloses nothing about the host: it reads source text and no files. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

/** Stands for a folder of the object store, where files are named by buckets of all tenants. */
let folder: string
let workspace: TestWorkspace
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-host-'))
  await writeFile(join(folder, 'bucket-of-another-tenant.dat'), 'no map')
  workspace = await createTestWorkspace()
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const deploy = (source: string) =>
  call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name: unique('f'), source },
  })

// A bundler turns such an import into an object with a member for each file; the getter receives that object.
test.each([
  ['import', (path: string) => `import('${path}' + name)`],
  ['import of a template', (path: string) => `import(\`${path}$\{name}\`)`],
  ['require', (path: string) => `require('${path}' + name)`],
])('compiler: %s with a computed name: lists no folder', async (_what, load) => {
  const path = `.${folder}/`
  const made = await deploy(`
    Object.defineProperty(Object.prototype, '${path}x', { get() { return () => Object.keys(this) } })
    export default async ({ name }) => ${load(path)}`)
  expect(made.status).toBe(201)
  const reply = await call('POST', `/v1/functions/${made.body.id}/invoke`, {
    as: workspace.service,
    body: { name: 'x' },
  })
  expect(JSON.stringify(reply.body)).not.toContain('bucket-of-another-tenant')
  expect([reply.status, reply.body.code]).toEqual([502, 'function_error'])
})

test.each(['', '.', 'file://'])('compiler: source map reference %s<path>: not read', async (before) => {
  const link = (name: string) =>
    `export default () => 1\n//# sourceMappingURL=${before}${join(folder, name)}\n`
  const [there, absent] = await Promise.all([
    deploy(link('bucket-of-another-tenant.dat')),
    deploy(link('nothing.dat')),
  ])
  expect([there.status, absent.status]).toEqual([201, 201])
})
