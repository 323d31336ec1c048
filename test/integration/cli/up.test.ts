/** The first command of the README, as a new user types it: with servers of its own, through the real bootstrap. */

import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { masterKeyOf } from '../../../src/cli/stack/launch-platform.ts'
import { DERIVED, deriveSecret, OPERATOR_CLIENT } from '../../../src/infra/crypto/secrets.ts'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { SmtpServer } from '../../support/servers/smtp-server.ts'
import { repeated } from '../../support/stack/soak.ts'

const run = promisify(execFile)
const UP = ['stack/bootstrap.mjs', 'up', '--ephemeral']

/** Processes whose command line contains the text. */
async function processesOf(text: string): Promise<string[]> {
  const { stdout } = await run('ps', ['-eo', 'pid=,args='], { maxBuffer: 16 * 1024 * 1024 })
  return stdout.split('\n').filter((line) => line.includes(text) && !line.includes('ps -eo'))
}

/** The table that a start prints. */
function expectTable(stdout: string): void {
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
}

test.runIf(repeated(0, 1))(
  'up --once: new folder: prints the results, ends',
  async () => expectTable((await run(process.execPath, [...UP, '--once'])).stdout),
  120_000,
)

/** A folder for temporary files, to find the processes and the data of a start by. */
async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-start-'))
  await chmod(folder, 0o711)
  return folder
}

/** The settings of the operator of an ephemeral start, which writes no `.env.local`. */
async function operatorOf(TMPDIR: string, stdout: string): Promise<Record<string, string>> {
  const names = await readdir(TMPDIR)
  const dir =
    names.map((name) => join(TMPDIR, name)).find((path) => existsSync(join(path, 'master.key'))) ?? ''
  const row = (name: string) => new RegExp(`^  ${name} +(\\S+)$`, 'm').exec(stdout)?.[1] ?? ''
  return {
    TENON_URL: row('API'),
    TENON_WORKSPACE_ID: row('workspace'),
    TENON_CLIENT_ID: OPERATOR_CLIENT,
    TENON_CLIENT_SECRET: deriveSecret(await masterKeyOf(dir), DERIVED.operatorSecret),
    TENON_QUIET: '1',
  }
}

const LOCAL_FLOW = (
  origin: string,
) => `document: { dsl: '1.0.3', namespace: test, name: local, version: '1.0.0' }
do:
  - ask: { call: http, with: { method: get, endpoint: '${origin}/echo' } }
  - board: { approve: { title: Pay?, approvers: [mia@example.test] } }
`

test('up --allow-loopback: new folder: uses each service, calls this machine, mails by SMTP_URL; Ctrl-C: ends', async () => {
  const [TMPDIR, smtp, servers] = await Promise.all([
    temporaryFolder(),
    SmtpServer.open(),
    FakeServers.open(),
  ])
  const env = {
    ...process.env,
    TMPDIR,
    SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
    TENON_MAIL_FROM: 'a@b.test',
  }
  const child = spawn(process.execPath, [...UP, '--allow-loopback'], { env })
  const ended = new Promise<number | null>((done) => child.once('exit', done))
  let stdout = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  try {
    await eventually(async () => (stdout.includes('Serving.') ? true : undefined), 90_000)
    expectTable(stdout)
    const settings = { ...process.env, ...(await operatorOf(TMPDIR, stdout)) }
    const tenon = async (...args: string[]) =>
      (await run(process.execPath, ['stack/bootstrap.mjs', ...args], { env: settings })).stdout
    const file = join(TMPDIR, 'local.yaml')
    await writeFile(file, LOCAL_FLOW(servers.origin))
    expect(await tenon('flow', 'publish', file)).toMatch(/^local v1 /)
    const id = (await tenon('flow', 'run', 'local', '--detach')).trim()
    const [mail] = await eventually(async () => (smtp.mails.length > 0 ? smtp.mails : undefined))
    expect(mail).toMatchObject({ from: 'a@b.test', to: ['mia@example.test'] })
    expect(servers.requestsTo('/echo').length).toBeGreaterThan(0)
    expect(await tenon('approval', 'show', id)).toContain('"url": "/echo"')
    expect(smtp.mails).toHaveLength(1)
  } finally {
    child.kill('SIGINT')
    await ended
    await Promise.all([smtp.close(), servers.close()])
  }
  expect([await ended, await processesOf(TMPDIR)]).toEqual([0, []])
  await rm(TMPDIR, { recursive: true, force: true })
}, 180_000)

test('up: Ctrl-C during the start: ends and leaves nothing running', async () => {
  const TMPDIR = await temporaryFolder()
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
  const env = operatorEnv(await createTestWorkspace())
  const tenon = (...args: string[]) => runCommand(args, { env })
  const token = await run(process.execPath, ['stack/bootstrap.mjs', 'token'], { env })
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
  const faulty = await tenon('flow', 'validate', 'package.json')
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
