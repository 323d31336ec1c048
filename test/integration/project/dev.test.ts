/** `tenon project dev` in a process of its own: each saved change is applied, a broken one changes nothing, production is refused. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { operatorEnv } from '../../support/clients/cli.ts'
import { BOOKINGS, manifest, projectFolder, readFiles, writeFiles } from '../../support/fixtures/projects.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'

/** The process, and what it has printed. */
function startDev(folder: string, workspace: TestWorkspace): { child: ChildProcess; output: () => string } {
  const env = { ...operatorEnv(workspace), TENON_CALLER_CWD: folder, TENON_ENVIRONMENT: 'development' }
  const child = spawn(process.execPath, [resolve('src/cli/main.ts'), 'project', 'dev'], { env })
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
  onTestFinished(() => {
    child.kill()
  })
  return { child, output: () => text }
}

const setEnvironment = ({ workspaceId, operator: as }: TestWorkspace, environment: string) =>
  call('PATCH', `/v1/workspaces/${workspaceId}`, { as, body: { environment } })

const priced = ({ service: as }: TestWorkspace) =>
  call('POST', '/v1/functions/price/invoke', { as, body: { hours: 2 } })

test('dev: applies the project and each change, keeps the last good version, and writes types', async () => {
  const workspace = await createTestWorkspace()
  expect((await setEnvironment(workspace, 'development')).status).toBe(200)
  const folder = await projectFolder({
    ...BOOKINGS,
    ...manifest({ only: workspace }, 'types: tenon-types.ts\n'),
  })
  const { output } = startDev(folder, workspace)
  const shows = (text: RegExp) => eventually(async () => (text.test(output()) ? true : undefined))
  await shows(/7 changes applied in \d+ ms/)
  expect((await readFiles(folder))['tenon-types.ts']).toContain('readonly court_id?: string')
  expect((await priced(workspace)).body).toEqual({ price: '40 €' })
  await writeFiles(folder, { 'functions/_shared/euros.ts': 'export const euros = (n: number) => `€ ${' })
  await shows(/functions\/_shared\/euros\.ts:1:\d+/)
  expect((await priced(workspace)).body).toEqual({ price: '40 €' })
  await writeFiles(folder, {
    'functions/_shared/euros.ts': 'export const euros = (n: number) => `€ ${n}`\n',
  })
  await shows(/functions\/price v2/)
  await eventually(async () => ((await priced(workspace)).body.price === '€ 40' ? true : undefined))
  await setEnvironment(workspace, 'production')
  await writeFiles(folder, { 'functions/_shared/euros.ts': 'export const euros = (n: number) => n\n' })
  await shows(/is one of production, to which each saved file is never applied/)
  expect((await priced(workspace)).body).toEqual({ price: '€ 40' })
})

test('dev: a workspace of production is refused, whatever the environment of the command says', async () => {
  const workspace = await createTestWorkspace()
  const folder = await projectFolder({ ...BOOKINGS, ...manifest({ development: workspace }) })
  const { child, output } = startDev(folder, workspace)
  const [code] = await once(child, 'exit')
  expect(code).toBe(1)
  expect(output()).toContain('is one of production, to which each saved file is never applied')
  const path = `/v1/functions?workspace_id=${workspace.workspaceId}`
  expect((await call('GET', path, { as: workspace.operator })).body.data).toEqual([])
})
