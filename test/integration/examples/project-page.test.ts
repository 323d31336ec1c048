/** Applies the project of docs/project.md to a workspace for development and to one for customers, with the commands that it shows. */

import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { projectFolder, projectIn, readFiles } from '../../support/fixtures/projects.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const PAGE = readFileSync('docs/project.md', 'utf8')
const blocksOf = (language: string): string[] =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map(([, code = '']) => code)

/** Blocks whose first line is a comment with the name of a file. */
const FILES = Object.fromEntries(
  [...blocksOf('yaml'), ...blocksOf('ts')].map((text) => [/^(?:#|\/\/) (\S+)\n/.exec(text)?.[1] ?? '', text]),
)
const WORKFLOW = '.github/workflows/deploy.yml'

let development: TestWorkspace
let production: TestWorkspace
beforeAll(async () => {
  ;[development, production] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  for (const [slug, { workspaceId, operator: as }] of Object.entries({
    'club-dev': development,
    club: production,
  })) {
    const renamed = await call('PATCH', `/v1/workspaces/${workspaceId}`, { as, body: { slug } })
    expect(renamed.status).toBe(200)
  }
})

test('page of projects: the commands apply its files to both workspaces, and each target has its own settings', async () => {
  const { [WORKFLOW]: workflow, ...files } = FILES
  const folder = await projectFolder(files)
  const project = projectIn(folder, development)
  const commands = blocksOf('sh').join('').trim().split('\n')
  const codes = []
  for (const line of commands) {
    const [, args = ''] = /^npx tenon project (.*?)\s*#/.exec(line) ?? []
    const ended = await project(...args.split(' '))
    codes.push(ended.code)
    expect(ended.stderr).toBe('')
  }
  expect(codes).toEqual([2, 0, 0, 0])
  const before = await readFiles(folder)
  expect(Object.keys(before)).toEqual([...Object.keys(files), 'tenon.lock.json'].toSorted())
  expect(await project('pull', '--target', 'production')).toMatchObject({ stdout: 'No file has changed.\n' })
  expect(await readFiles(folder)).toEqual(before)
  for (const [workspace, origins] of [
    [development, ['*']],
    [production, ['https://club.example']],
  ] as const) {
    const settings = `/v1/services?workspace_id=${workspace.workspaceId}`
    const { body } = await call('GET', settings, { as: workspace.operator })
    expect(body.cors.origins).toEqual(origins)
    const price = { as: workspace.service, body: { hours: 2 } }
    expect((await call('POST', '/v1/functions/price/invoke', price)).body).toEqual({ euros: 40 })
  }
})

test('page of projects: the workflow asks nobody, and uses commands and options that there are', async () => {
  const { jobs } = parse(FILES[WORKFLOW] ?? '')
  const runs: string[] = jobs.deploy.steps.flatMap(({ run }: { run?: string }) => run ?? [])
  const commands = runs.join('\n').matchAll(/npx tenon project (\S+) (.*?)(?: \|\||$)/gm)
  const project = projectIn(await projectFolder({}), development)
  for (const [, verb = '', args = ''] of commands) {
    const { stdout } = await project(verb, '--help')
    for (const [option] of args.matchAll(/--[a-z]+/g)) expect(stdout).toContain(option)
    if (verb === 'apply') expect(args).toContain('--yes=')
  }
})
