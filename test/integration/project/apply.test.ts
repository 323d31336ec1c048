/** `tenon project apply`: asks, writes under conditions, and deletes what the project has made. */

import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { openPlace } from '../../../src/cli/project/place.ts'
import { carryOut, planProject } from '../../../src/cli/project/plan.ts'
import { operatorEnv, runInEnvironment } from '../../support/clients/cli.ts'
import {
  BOOKINGS,
  type Files,
  manifest,
  type Project,
  projectFolder,
  projectIn,
  readFiles,
  slugOf,
  writeFiles,
} from '../../support/fixtures/projects.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let slug: string
beforeEach(async () => {
  workspace = await createTestWorkspace()
  slug = await slugOf(workspace)
})

async function projectOf(files: Files, more = ''): Promise<{ folder: string; project: Project }> {
  const folder = await projectFolder({ ...files, ...manifest({ only: workspace }, more) })
  return { folder, project: projectIn(folder, workspace) }
}

async function applied(project: Project, ...more: string[]): Promise<string> {
  const ended = await project('apply', `--yes=${slug}`, ...more)
  expect(ended, ended.stdout + ended.stderr).toMatchObject({ code: 0 })
  return ended.stdout
}

/** The workspace and the folder as a command has them. */
const placeOf = (folder: string) =>
  runInEnvironment({ env: operatorEnv(workspace), callerDir: folder }, () => openPlace({}))

const flowsOf = async () => {
  const path = `/v1/flows/workspaces/${workspace.workspaceId}/definitions`
  return (await call('GET', path, { as: workspace.operator })).body.data
}

const functionsOf = async () => {
  const path = `/v1/functions?workspace_id=${workspace.workspaceId}`
  return (await call('GET', path, { as: workspace.operator })).body.data
}

test('apply where nobody can be asked: refused without the slug, and with that of another workspace', async () => {
  const { project } = await projectOf(BOOKINGS)
  expect(await project('apply')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('+ collections/courts'),
    stderr: `Nothing was changed. Confirm the plan with --yes=${slug}.\n`,
  })
  expect(await project('apply', '--yes=another')).toMatchObject({
    code: 1,
    stderr: `Nothing was changed: --yes names another, and the workspace of the target is ${slug}.\n`,
  })
  expect(await flowsOf()).toEqual([])
})

test('a comment alone is no change; changed sources make one version each', async () => {
  const { folder, project } = await projectOf(BOOKINGS)
  await applied(project)
  await writeFiles(folder, {
    'collections/courts.yaml': `# Changed.\n${BOOKINGS['collections/courts.yaml']}`,
  })
  expect(await project('diff')).toMatchObject({ code: 0 })
  await applied(project)
  expect(await functionsOf()).toMatchObject([{ name: 'price', version: 1, config: { timeout: '5s' } }])
  expect(await flowsOf()).toMatchObject([{ name: 'remind', latest_version: 1 }])
  await writeFiles(folder, {
    'functions/_shared/euros.ts': 'export const euros = (n: number) => `€ ${n}`\n',
    'flows/remind.yaml': `# Again.\n${BOOKINGS['flows/remind.yaml']}`,
  })
  const { stdout } = await project('diff', '--json')
  expect(JSON.parse(stdout).changes).toMatchObject([
    { kind: 'functions', name: 'price', action: 'change' },
    { kind: 'flows', name: 'remind', action: 'change' },
    { kind: 'mcp', name: 'club', action: 'change' },
  ])
  await applied(project)
  expect(await functionsOf()).toMatchObject([{ version: 2 }])
  expect(await flowsOf()).toMatchObject([{ latest_version: 2 }])
  expect(await project('diff')).toMatchObject({ code: 0 })
})

const CHANGED: Files = {
  'collections/courts.yaml': `${BOOKINGS['collections/courts.yaml']}indexes: [{ fields: [price] }]\n`,
  'functions/price.yaml': 'timeout: 6s\nuser: true\n',
  'functions/_shared/euros.ts': 'export const euros = (n: number) => `${n}`\n',
  'flows/remind.yaml': `# Again.\n${BOOKINGS['flows/remind.yaml']}`,
  'mcp/club.yaml': BOOKINGS['mcp/club.yaml']?.replace('Price of a court', 'What a court costs') ?? '',
  'settings.yaml': 'cors: { origins: [https://other.example] }\n',
}

/** Each changes one resource as somebody else. */
const FOREIGN: readonly (readonly [what: string, change: () => Promise<unknown>])[] = [
  [
    'collection',
    async () => {
      const as = workspace.operator
      const own = `/v1/schemas?workspace_id=${workspace.workspaceId}`
      const { body } = await call('GET', own, { as })
      const { id, schema } = body.data.find(
        ({ collection }: { collection: string }) => collection === 'courts',
      )
      return call('PUT', `/v1/schemas/${id}`, { as, body: { schema, access: { anon: { read: false } } } })
    },
  ],
  [
    'function',
    () => {
      const body = { workspace_id: workspace.workspaceId, name: 'price', source: 'export default () => 1' }
      return call('POST', '/v1/functions', { as: workspace.operator, body })
    },
  ],
  [
    'flow',
    () => {
      const source = `# Foreign.\n${BOOKINGS['flows/remind.yaml']}`
      const path = `/v1/flows/workspaces/${workspace.workspaceId}/definitions/remind`
      return call('PUT', path, { as: workspace.operator, body: { source } })
    },
  ],
  [
    'setting',
    () => {
      const body = { workspace_id: workspace.workspaceId, anon: { events: 'none' } }
      return call('POST', '/v1/services/configure', { as: workspace.operator, body })
    },
  ],
  [
    'MCP server',
    () => {
      const path = `/v1/mcp/workspaces/${workspace.workspaceId}/servers/club`
      return call('PATCH', path, { as: workspace.operator, body: { list: 'granted' } })
    },
  ],
]

test.each(FOREIGN)(
  'a %s that somebody else changes after the plan stops it, and the next one completes it',
  async (what, change) => {
    const { folder, project } = await projectOf(BOOKINGS)
    await applied(project)
    await writeFiles(folder, CHANGED)
    const place = await placeOf(folder)
    const plan = await planProject(place)
    expect(plan.changes.length).toBe(5)
    expect(await change()).toMatchObject({ status: expect.toSatisfy((status) => status < 300) })
    await expect(carryOut(place, plan, () => {})).rejects.toThrow(
      new RegExp(`${what}.* was changed by somebody else after the plan was made`, 'i'),
    )
    await applied(project)
    expect(await project('diff')).toMatchObject({ code: 0 })
  },
)

test('two applies at once: each resource is made once, and the workspace has the project in the end', async () => {
  const { folder, project } = await projectOf(BOOKINGS)
  const place = await placeOf(folder)
  const plans = [await planProject(place), await planProject(place)]
  const ended = await Promise.allSettled(plans.map((plan) => carryOut(place, plan, () => {})))
  expect(ended.filter(({ status }) => status === 'rejected').length).toBeGreaterThanOrEqual(1)
  await applied(project)
  expect(await project('diff')).toMatchObject({ code: 0 })
  expect(await functionsOf()).toMatchObject([{ name: 'price', version: 1 }])
})

test('prune: deletes what the project has made, and nothing of others, nor a collection with documents', async () => {
  const { folder, project } = await projectOf(BOOKINGS)
  await applied(project)
  const source = BOOKINGS['flows/remind.yaml']?.replaceAll('remind', 'foreign')
  const path = `/v1/flows/workspaces/${workspace.workspaceId}/definitions`
  await call('POST', path, { as: workspace.operator, body: { source } })
  for (const name of ['flows', 'functions', 'mcp', 'clients.yaml'])
    await rm(join(folder, name), { recursive: true })
  const kept = await project('diff')
  expect(kept).toMatchObject({ code: 0 })
  expect(kept.stdout).toMatch(/flows\/remind is only in the workspace: --prune deletes it/)
  expect(kept.stdout).toMatch(/flows\/foreign is only in the workspace$/m)
  const { code, stdout } = await project('diff', '--prune', '--json')
  expect(code).toBe(2)
  expect(JSON.parse(stdout).changes).toMatchObject([
    ...['mcp/club', 'flows/remind', 'functions/price'].map((key) => ({
      ...{
        kind: key.split('/')[0],
        name: key.split('/')[1],
        action: 'delete',
        differences: [{ lossy: true }],
      },
    })),
  ])
  await applied(project, '--prune')
  expect(await flowsOf()).toMatchObject([{ name: 'foreign' }])
  expect(await functionsOf()).toEqual([])
  await call('POST', '/v1/collections/courts/documents', { as: workspace.service, body: { name: 'Centre' } })
  await rm(join(folder, 'collections'), { recursive: true })
  const refused = await project('apply', '--prune', `--yes=${slug}`)
  expect(refused).toMatchObject({ code: 1, stdout: expect.stringContaining('collections/bookings deleted') })
  const { body } = await call('GET', '/v1/collections/courts/documents', { as: workspace.service })
  expect(body.data).toMatchObject([{ name: 'Centre' }])
})

test('without the record of what it has made, a project deletes nothing', async () => {
  const { folder, project } = await projectOf(BOOKINGS)
  await applied(project)
  await rm(join(folder, 'tenon.lock.json'))
  await rm(join(folder, 'flows'), { recursive: true })
  expect(await project('diff', '--prune')).toMatchObject({ code: 0 })
})

test('a step that loses documents is marked', async () => {
  const { folder, project } = await projectOf(BOOKINGS)
  await applied(project)
  await writeFile(
    join(folder, 'collections/bookings.yaml'),
    `${BOOKINGS['collections/bookings.yaml']}ttl: { field: starts_at }\n`,
  )
  const { stdout } = await project('diff')
  expect(stdout).toMatch(/collections\/bookings .*ttl: .*\(destructive\) lost for ever/)
})

test('secrets: a missing one is named before anything is written; its value comes from the environment alone', async () => {
  const { folder, project } = await projectOf(BOOKINGS, 'secrets: [payment_key]\n')
  expect(await project('apply', `--yes=${slug}`)).toMatchObject({
    code: 1,
    stderr:
      'Nothing was changed:\n  secrets/payment_key: missing: set TENON_SECRET_PAYMENT_KEY for this command\n',
  })
  expect(await flowsOf()).toEqual([])
  const value = 'correct-horse-battery'
  const withSecret = projectIn(folder, workspace, { TENON_SECRET_PAYMENT_KEY: value })
  expect(await applied(withSecret)).toContain('secrets/payment_key')
  expect(await project('diff')).toMatchObject({ code: 0 })
  expect(JSON.stringify(await readFiles(folder))).not.toContain(value)
})

test('settings that the file does not name stay, also beside one that it changes', async () => {
  const { project } = await projectOf({ 'settings.yaml': 'retention: { executions: 30d }\n' })
  const { workspaceId: workspace_id, operator: as } = workspace
  const body = { workspace_id, retention: { function_runs: '20d' }, anon: { events: 'none' } }
  expect(await call('POST', '/v1/services/configure', { as, body })).toMatchObject({ status: 200 })
  await applied(project)
  const { body: settings } = await call('GET', `/v1/services?workspace_id=${workspace_id}`, { as })
  expect(settings).toMatchObject({
    ...{ retention: { executions: '30d', function_runs: '20d' }, anon: { events: 'none' } },
  })
})

test('a case that fails stops everything, and prints its differences', async () => {
  const cases = BOOKINGS['flows/remind.cases.yaml']?.replace('text: At noon', 'text: At night') ?? ''
  const { project } = await projectOf({ ...BOOKINGS, 'flows/remind.cases.yaml': cases })
  expect(await project('apply', `--yes=${slug}`)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('- "At night"'),
    stderr: expect.stringContaining('1 case of the flow remind failed. Nothing was changed.'),
  })
  expect(await functionsOf()).toEqual([])
})
