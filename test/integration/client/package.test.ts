/** The package as it is published: packed, installed into the folder of another application, and used there. */

import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { operatorEnv } from '../../support/clients/cli.ts'
import { BOOKINGS, manifest, slugOf, writeFiles } from '../../support/fixtures/projects.ts'
import { addTestWorkspace, call, createTestWorkspace, unique } from '../../support/fixtures/tenants.ts'

const ROOT = new URL('../../../', import.meta.url).pathname
const run = promisify(execFile)
const NPM = ['--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error']

let app: string
beforeEach(async () => {
  app = await mkdtemp(join(tmpdir(), 'tenon-app-'))
})
afterEach(() => rm(app, { recursive: true, force: true }))

/** Installs the only archive of the folder into an application there. */
async function install(): Promise<void> {
  const [archive = ''] = (await readdir(app)).filter((name) => name.endsWith('.tgz'))
  await writeFile(join(app, 'package.json'), '{"name": "app", "type": "module", "private": true}')
  await run('npm', ['install', `./${archive}`, ...NPM], { cwd: app })
}

test('npm pack, npm install in another folder: the compiler has its types, and Node runs it', async () => {
  await run('npm', ['pack', '--workspace', 'client', '--pack-destination', app, ...NPM], { cwd: ROOT })
  await install()
  const { url } = inject('tenon')
  const workspace = await createTestWorkspace()
  const options = JSON.stringify({ url, apikey: workspace.service['apikey'] })
  await writeFile(
    join(app, 'app.ts'),
    `import { createClient, TenonError, type Client } from '@tenon/client'
     import { Auth } from '@tenon/client/auth'
     const tenon: Client = createClient(${options})
     const notes = tenon.from('${unique('notes')}')
     const made = await notes.create({ text: 'hello' })
     const page = await notes.where({ text: 'hello' }).page()
     const error = await notes.get('x').catch((e: unknown) => e)
     const auth = new Auth({ url: ${options}.url, clientId: 'client_x', redirectUri: 'http://localhost/' })
     console.log(JSON.stringify([page.data[0]?.id === made.id, error instanceof TenonError && error.code, auth.isSignedIn]))`,
  )
  const compiler = {
    target: 'es2022',
    module: 'nodenext',
    strict: true,
    lib: ['es2023', 'dom', 'dom.iterable'],
    types: [],
  }
  await writeFile(
    join(app, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: compiler, files: ['app.ts'] }),
  )
  await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', app]).catch((error: { stdout: string }) => {
    throw new Error(error.stdout)
  })
  const { stdout } = await run(process.execPath, [join(app, 'app.js')])
  expect(JSON.parse(stdout)).toEqual([true, 'not_found', false])
})

test('the command line without servers: installed in another folder, it calls the platform, applies a project to two workspaces, and says what it does not contain', async () => {
  const folder = join(app, 'cli')
  await run(process.execPath, ['src/cli/main.ts', 'package', folder], { cwd: ROOT })
  await run('npm', ['pack', folder, '--pack-destination', app, ...NPM], { cwd: app })
  await install()
  const workspace = await createTestWorkspace()
  const tenon = (...args: readonly string[]) =>
    run(process.execPath, [join(app, 'node_modules/@tenon/cli/tenon.mjs'), ...args], {
      cwd: app,
      env: { PATH: process.env['PATH'], HOME: app, ...operatorEnv(workspace), TENON_CALLER_CWD: app },
    })
  expect((await tenon('--version')).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  await writeFile(
    join(app, 'notes.json'),
    '{"collection": "notes", "store": "relational", "schema": {"properties": {"n": {"type": "integer"}}}}',
  )
  expect((await tenon('schema', 'apply', 'notes.json')).stdout).toMatch(/^sch_\w+ notes /)
  expect((await tenon('types', '--out', '-')).stdout).toContain('readonly n?: number')
  await expect(tenon('up')).rejects.toMatchObject({
    stderr: expect.stringContaining('Run it in a checkout of Tenon'),
  })
  // As a machine, and from the files alone.
  const production = await addTestWorkspace(workspace)
  const project = join(app, 'project')
  await writeFiles(project, { ...BOOKINGS, ...manifest({ development: workspace, production }) })
  const machine = { kind: 'machine', name: 'ci', role: 'tenant_admin', tenant_id: workspace.tenantId }
  const { body: client } = await call('POST', '/v1/oauth-clients', { as: workspace.operator, body: machine })
  const asMachine = { TENON_CLIENT_ID: client.client_id, TENON_CLIENT_SECRET: client.client_secret }
  for (const [target, of] of Object.entries({ development: workspace, production })) {
    const args = ['project', 'apply', '--folder', 'project', '--target', target, `--yes=${await slugOf(of)}`]
    const applied = await run(process.execPath, [join(app, 'node_modules/@tenon/cli/tenon.mjs'), ...args], {
      ...{ cwd: app, env: { PATH: process.env['PATH'], TENON_URL: inject('tenon').url, ...asMachine } },
    })
    expect(applied.stdout).toContain('functions/price v1')
    const same = await tenon('project', 'diff', '--folder', 'project', '--target', target)
    expect(same.stdout).toContain('No changes, 7 the same.')
  }
})
