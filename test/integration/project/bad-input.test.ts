/** Projects that are broken, or made to reach out of their folder: refused with a sentence, and nothing is read or written outside. */

import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, inject, test, vi } from 'vitest'
import {
  BOOKINGS,
  type Files,
  manifest,
  projectFolder,
  projectIn,
  readFiles,
  slugOf,
} from '../../support/fixtures/projects.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const BOMB = `a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
schema: { enum: [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c] }
`

const REFUSED: readonly (readonly [what: string, files: Files, reason: RegExp])[] = [
  ['YAML with aliases that grow', { 'collections/bomb.yaml': BOMB }, /bomb\.yaml: Excessive alias count/],
  ['YAML that is broken', { 'collections/a.yaml': 'schema: {' }, /collections\/a\.yaml: .* at line 1/s],
  [
    'names that differ in case alone',
    { 'collections/courts.yaml': 'schema: {}', 'collections/Courts.yaml': 'schema: {}' },
    /differ only in case/,
  ],
  ['a collection under another name', { 'collections/a.yaml': 'collection: b' }, /a\.yaml declares "b"/],
  ['a file that would be overlooked', { 'collections/a.yml': '' }, /collections\/a\.yml is not read/],
  [
    'a flow under another name',
    { 'flows/a.yaml': BOOKINGS['flows/remind.yaml'] ?? '' },
    /document\.name "remind"/,
  ],
  [
    'a function that leaves the folder',
    { 'functions/a.ts': "import '../../outside.ts'" },
    /outside of the project|not resolve/,
  ],
  ['a configuration of no function', { 'functions/a.yaml': 'timeout: 5s' }, /configuration of no function/],
  ['a machine client', { 'clients.yaml': 'ci: { role: service }' }, /tenon oauth-client create/],
  [
    'a secret in settings',
    { 'settings.yaml': 'auth: { providers: [{ client_secret: abcdefgh }] }' },
    /No file of a project has/,
  ],
  [
    'tools by their short names',
    { 'mcp/a.yaml': 'tools: { price: { enabled: true } }' },
    /write the whole id/,
  ],
  [
    '10,000 collections',
    Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`collections/c${n}.yaml`, 'schema: {}'])),
    /collections has 10000 files/,
  ],
]

test.each(REFUSED)('diff of a project with %s: exit code 1, and the reason', async (_, files, reason) => {
  const folder = await projectFolder({ ...files, ...manifest({ only: workspace }) })
  await writeFile(join(folder, '..', 'outside.ts'), 'export {}\n')
  expect(await projectIn(folder, workspace)('diff')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(reason),
  })
})

const MANIFESTS: readonly (readonly [what: string, text: (id: string) => string, reason: RegExp])[] = [
  [
    'types outside of the folder',
    (id) => `targets: { a: { workspace: ${id} } }\ntypes: ../x.ts`,
    /types: write the name/,
  ],
  [
    'types at an absolute path',
    (id) => `targets: { a: { workspace: ${id} } }\ntypes: /tmp/x.ts`,
    /types: write the name/,
  ],
  [
    'an unknown member',
    (id) => `targets: { a: { workspace: ${id}, slug: x } }`,
    /targets\.a\.slug is not known/,
  ],
  ['no targets', () => 'secrets: []', /has no targets/],
  [
    'another installation',
    (id) => `targets: { a: { workspace: ${id}, url: https://other.example } }`,
    /at https:\/\/other\.example/,
  ],
  [
    'a workspace that is not there',
    () => 'targets: { a: { workspace: ws_01m8pptpwkemhvk60c1qxcdad1 } }',
    /not_found/,
  ],
  [
    'several targets',
    (id) => `targets: { a: { workspace: ${id} }, b: { workspace: ${id} } }`,
    /Name a target with --target/,
  ],
]

test.each(MANIFESTS)('tenon.yaml with %s: exit code 1, and the reason', async (_, text, reason) => {
  const folder = await projectFolder({ 'tenon.yaml': text(workspace.workspaceId) })
  expect(await projectIn(folder, workspace)('diff')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(reason),
  })
})

test('a project of another tenant: its workspace is not there for the administrator of this one', async () => {
  const other = await createTestWorkspace()
  const folder = await projectFolder(manifest({ only: other }))
  const made = { kind: 'machine', name: 'ci', role: 'workspace_admin', ...of(workspace) }
  const { body } = await call('POST', '/v1/oauth-clients', { as: workspace.operator, body: made })
  const env = { TENON_CLIENT_ID: body.client_id, TENON_CLIENT_SECRET: body.client_secret }
  const ended = await projectIn(folder, workspace, env)('apply', `--yes=${await slugOf(other)}`)
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/not_found|forbidden/) })
})

const of = ({ workspaceId: workspace_id, tenantId: tenant_id }: TestWorkspace) => ({
  workspace_id,
  tenant_id,
})

test('symbolic links: neither read nor written through, as a file or a folder', async () => {
  const outside = await projectFolder({ 'secret.yaml': 'schema: {}\n', 'in/courts.yaml': 'schema: {}\n' })
  const ofFile = await projectFolder({ ...manifest({ only: workspace }), 'collections/a.yaml': 'schema: {}' })
  await symlink(join(outside, 'secret.yaml'), join(ofFile, 'collections/b.yaml'))
  const ofFolder = await projectFolder(manifest({ only: workspace }))
  await symlink(join(outside, 'in'), join(ofFolder, 'collections'))
  const before = await readFiles(outside)
  for (const folder of [ofFile, ofFolder])
    for (const verb of ['diff', 'pull'])
      expect(await projectIn(folder, workspace)(verb)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('is a symbolic link, or not a file'),
      })
  expect(await readFiles(outside)).toEqual(before)
})

test('the number of requests does not grow with the number of resources that are the same', async () => {
  const counts: number[] = []
  for (const count of [1, 12]) {
    const own = await createTestWorkspace()
    const names = Array.from({ length: count }, (_, n) => n)
    const files = Object.assign(
      {},
      ...names.map((n) => ({
        [`collections/c${n}.yaml`]: 'schema: {}\n',
        [`flows/f${n}.yaml`]: BOOKINGS['flows/remind.yaml']?.replace('remind,', `f${n},`),
        [`functions/fn${n}.ts`]: `export default () => ${n}\n`,
      })),
    ) as Files
    const folder = await projectFolder({ ...files, ...manifest({ only: own }) })
    const project = projectIn(folder, own)
    const applied = await project('apply', `--yes=${await slugOf(own)}`)
    expect(applied, applied.stderr).toMatchObject({ code: 0 })
    const sent = vi.spyOn(globalThis, 'fetch')
    expect(await project('diff')).toMatchObject({ code: 0 })
    counts.push(
      sent.mock.calls.filter(([url]) => String(url).startsWith(`${inject('tenon').url}/v1/`)).length,
    )
    sent.mockRestore()
  }
  expect(counts[1]).toBe(counts[0])
})
