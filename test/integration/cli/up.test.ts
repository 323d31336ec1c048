/** The first command of the README, as a new user types it: with servers of its own, through the real bootstrap. */

import { execFile, spawn } from 'node:child_process'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

const run = promisify(execFile)
const UP = ['stack/bootstrap.mjs', 'up', '--ephemeral']

/** Processes whose command line contains the text. */
async function processesOf(text: string): Promise<string[]> {
  const { stdout } = await run('ps', ['-eo', 'pid=,args='], { maxBuffer: 16 * 1024 * 1024 })
  return stdout.split('\n').filter((line) => line.includes(text) && !line.includes('ps -eo'))
}

test('up --once: new folder: creates a tenant, uses each service, prints the results, ends', async () => {
  const { stdout } = await run(process.execPath, [...UP, '--once'])
  expect(stdout).toContain('Flow hello v1: completed')
  expect(stdout).toContain('"message": "Hello, Ada!"')
  expect(stdout).toMatch(/^ {2}document +notes\/\S+, created and found/m)
  expect(stdout).toMatch(/^ {2}object +main-\S+\/hello\.txt, 21 bytes/m)
  expect(stdout).toMatch(/^ {2}event +demo\.greeted, received after \d+ ms$/m)
  expect(stdout).toMatch(/^ {2}function +greet\(.*→ \{"message":"Hello, Ada!","letters":3\}$/m)
  expect(stdout).toMatch(/^ {2}MCP server +http:\S+\/servers\/demo\/mcp$/m)
  const [, line = ''] = /^ {2}(\{"mcpServers".*)$/m.exec(stdout) ?? []
  expect(JSON.parse(line).mcpServers['tenon-demo'].url).toMatch(/\/servers\/demo\/mcp$/)
  for (const title of ['PostgreSQL', 'Temporal', 'SeaweedFS', 'Valkey']) {
    expect(stdout).toMatch(new RegExp(`^  ${title} +\\d.*127\\.0\\.0\\.1:\\d+ +embedded$`, 'm'))
  }
  expect(stdout).toMatch(/anon +svc_anon_\S+/)
  expect(stdout).toMatch(/Ready in [\d.]+ s/)
}, 120_000)

test('up: Ctrl-C during the start: ends and leaves nothing running', async () => {
  const TMPDIR = await mkdtemp(join(tmpdir(), 'tenon-interrupted-'))
  await chmod(TMPDIR, 0o711)
  const env = { ...process.env, TMPDIR }
  const child = spawn(process.execPath, [...UP, '--once'], { stdio: 'ignore', env })
  const ended = new Promise<number | null>((done) => child.once('exit', done))
  await eventually(async () => ((await processesOf(TMPDIR)).length > 0 ? true : undefined), 60_000)
  child.kill('SIGINT')
  expect(await ended).toBe(130)
  expect(await processesOf(TMPDIR)).toEqual([])
  expect((await readdir(TMPDIR)).filter((name) => name.startsWith('tenon-'))).toEqual([])
  await rm(TMPDIR, { recursive: true, force: true })
}, 120_000)

test('token: prints the token alone; flow validate: prints file:line:column', async () => {
  const { url, clientId, clientSecret } = inject('tenon')
  const { workspaceId } = await createTestWorkspace()
  const env = {
    ...process.env,
    TENON_URL: url,
    TENON_CLIENT_ID: clientId,
    TENON_CLIENT_SECRET: clientSecret,
    TENON_WORKSPACE_ID: workspaceId,
    TENON_QUIET: '1',
  }
  const tenon = (...args: string[]) => run(process.execPath, ['stack/bootstrap.mjs', ...args], { env })
  const token = await tenon('token')
  expect(token.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  const { databaseUrl: DATABASE_URL, env: servers } = inject('tenon')
  const doctor = await run(process.execPath, ['stack/bootstrap.mjs', 'doctor'], {
    env: { ...env, ...servers, DATABASE_URL },
  })
  expect(doctor.stdout).toMatch(/✓ tenon_app +neither superuser nor BYPASSRLS/)
  expect(doctor.stdout).toContain('forced on every table')
  expect(doctor.stdout).toContain('All is well.')
  const valid = await tenon('flow', 'validate', 'flows-dsl/examples/hello.yaml')
  expect(valid.stdout).toBe('flows-dsl/examples/hello.yaml: valid\n')
  const faulty = await tenon('flow', 'validate', 'package.json').catch(
    (error: { code: number; stderr: string }) => error,
  )
  expect(faulty).toMatchObject({ code: 1, stderr: expect.stringMatching(/^package\.json:\d+:\d+ \w+: /) })
  const published = await tenon('flow', 'publish', 'flows-dsl/examples/hello.yaml')
  expect(published.stdout).toMatch(/^hello v1 [0-9a-f]{12} \(flow_\w+\)\n$/)
  const ran = await tenon('flow', 'run', 'hello', '--input', '{"name":"Ada"}')
  expect(JSON.parse(ran.stdout)).toMatchObject({ message: 'Hello, Ada!' })
  expect(ran.stderr).toContain('completed')
  const unreachable = await run(process.execPath, ['stack/bootstrap.mjs', 'token'], {
    env: { ...env, TENON_URL: 'http://127.0.0.1:1' },
  }).catch((error: { code: number; stderr: string }) => error)
  expect(unreachable).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('No server answers at http://127.0.0.1:1'),
  })
}, 120_000)
