/** The first command of the README, as a new user types it: with servers of its own, through the real bootstrap. */

import { execFile, spawn } from 'node:child_process'
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
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
  // The output is no terminal, but perhaps the log of a service.
  expect(stdout).not.toContain('svc_service_')
  expect(stdout).toMatch(/service +grep TENON_SERVICE_KEY \S*\.env\.local$/m)
  expect(stdout).toMatch(/Ready in [\d.]+ s/)
}

test.runIf(repeated(0, 1))('up --once: new folder: prints the results, ends', async () =>
  expectTable(
    (await run(process.execPath, [...UP, '--once'], { timeout: 110_000, killSignal: 'SIGINT' })).stdout,
  ),
)

/** A folder for temporary files, to find the processes and the data of a start by. */
async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-start-'))
  await chmod(folder, 0o711)
  return folder
}

/** Starts the platform with its data in a folder, until it says so. `stop` sends Ctrl-C. */
async function serve(folder: string, args: string[], env: NodeJS.ProcessEnv) {
  const main = resolve('src/cli/main.ts')
  const child = spawn(process.execPath, [main, 'up', ...args], { cwd: folder, env })
  const ended = new Promise<number | null>((done) => child.once('exit', done))
  const output = { text: '' }
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output.text += chunk
    })
  const stop = () => {
    child.kill('SIGINT')
    return ended
  }
  const serving = eventually(
    async () => (output.text.includes('The platform is running.') ? true : undefined),
    90_000,
  )
  const code = await Promise.race([serving.catch(stop), ended])
  if (code !== true) throw new Error(`up ended with ${code}:\n${output.text}`)
  const file = parseEnv(await readFile(join(folder, '.env.local'), 'utf8'))
  const tenon = async (...words: string[]) =>
    (
      await run(process.execPath, ['stack/bootstrap.mjs', ...words], {
        env: { ...env, ...file, TENON_QUIET: '1' },
      })
    ).stdout
  return { stdout: output.text, settings: file, workspace: file['TENON_WORKSPACE_ID'] ?? '', tenon, stop }
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
  const first = await serve(TMPDIR, ['--allow-loopback'], env)
  try {
    const { tenon } = first
    expectTable(first.stdout)
    // Its output is no terminal, but may be the log of a service.
    expect(first.settings['TENON_SERVICE_KEY']).toMatch(/^.{20}/)
    expect(first.stdout).not.toContain(first.settings['TENON_SERVICE_KEY'])
    const file = join(TMPDIR, 'local.yaml')
    await writeFile(file, LOCAL_FLOW(servers.origin))
    expect(await tenon('flow', 'publish', file)).toMatch(/^local v1 /)
    const id = (await tenon('flow', 'run', 'local', '--detach')).trim()
    const [mail] = await eventually(async () => (smtp.mails.length > 0 ? smtp.mails : undefined))
    expect(mail).toMatchObject({ from: 'a@b.test', to: ['mia@example.test'] })
    expect(servers.requestsTo('/echo').length).toBeGreaterThan(0)
    expect(await tenon('approval', 'show', id)).toContain('"url": "/echo"')
    expect(smtp.mails).toHaveLength(1)
    await changeSamples(TMPDIR, first)
  } finally {
    await first.stop()
    await Promise.all([smtp.close(), servers.close()])
  }
  expect([await first.stop(), await processesOf(TMPDIR)]).toEqual([0, []])
  await expectRestart(TMPDIR, env)
  await rm(TMPDIR, { recursive: true, force: true })
})

type Serving = Awaited<ReturnType<typeof serve>>

const OWN_HELLO = `document: { dsl: '1.0.3', namespace: examples, name: hello, version: '9.0.0' }
do: [{ own: { set: { mine: true } } }]
`

/** Does to what the demo has made what the tutorial does, and suspends the workspace. */
async function changeSamples(folder: string, { tenon, workspace }: Serving): Promise<void> {
  const [tools, hello] = [join(folder, 'tools.json'), join(folder, 'hello.yaml')]
  await writeFile(tools, '{"tools": {"collections:notes:get": {"enabled": true}}}')
  await tenon('mcp', 'publish', 'demo', '--tools', tools, '--accept-breaking')
  expect(JSON.parse(await tenon('mcp', 'publish', 'own', '--tools', tools))).toMatchObject({
    state: 'active',
  })
  await writeFile(hello, OWN_HELLO)
  expect(await tenon('flow', 'publish', hello)).toMatch(/^hello v2 /)
  await tenon('workspace', 'suspend', workspace)
}

/**
 * A later start, in a shell that has read `.env.local`, leaves the workspace to its user: it changes nothing in it, and may
 * find it suspended.
 */
async function expectRestart(folder: string, env: NodeJS.ProcessEnv): Promise<void> {
  const read = parseEnv(await readFile(join(folder, '.env.local'), 'utf8'))
  const { stdout, settings, tenon, workspace, stop } = await serve(folder, [], { ...env, ...read })
  try {
    expect(read['TENON_LOGIN_CLIENT_ID']).toMatch(/^client_/)
    expect(read).toMatchObject({ ...settings, TENON_URL: expect.anything() })
    expect(stdout).toContain(`npx tenon workspace resume ${workspace}`)
    expect(stdout).not.toMatch(/failed|!/)
    await tenon('workspace', 'resume', workspace)
    expect(JSON.parse(await tenon('flow', 'run', 'hello', '--wait'))).toEqual({ mine: true })
    expect(await tenon('collection', 'export', 'notes')).toMatch(/^\{.*\}\n$/)
  } finally {
    await stop()
  }
}

test('up: Ctrl-C during the start: ends and leaves nothing running', async () => {
  const TMPDIR = await temporaryFolder()
  const env = { ...process.env, TMPDIR }
  const child = spawn(process.execPath, [...UP, '--once'], { stdio: 'ignore', env })
  const ended = new Promise<number | null>((done) => child.once('exit', done))
  const starts = eventually(async () => ((await processesOf(TMPDIR)).length > 0 ? true : undefined), 60_000)
  await starts.finally(() => child.kill('SIGINT'))
  expect(await ended).toBe(130)
  expect(await processesOf(TMPDIR)).toEqual([])
  expect((await readdir(TMPDIR)).filter((name) => name.startsWith('tenon-'))).toEqual([])
  await rm(TMPDIR, { recursive: true, force: true })
})

test('token: prints the token alone; flow validate: prints file:line:column', async () => {
  const env = operatorEnv(await createTestWorkspace())
  const tenon = (...args: string[]) => runCommand(args, { env })
  const token = await run(process.execPath, ['stack/bootstrap.mjs', 'token'], { env })
  expect(token.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  const { databaseUrl: DATABASE_URL, env: servers } = inject('tenon')
  const doctor = await run(process.execPath, ['stack/bootstrap.mjs', 'doctor'], {
    env: { ...env, ...servers, DATABASE_URL },
  })
  for (const name of [
    'schema',
    'master_key',
    'isolation',
    'clock',
    'temporal',
    'valkey',
    'storage',
    'functions',
  ])
    expect(doctor.stdout).toMatch(new RegExp(`^✓ ${name} `, 'm'))
  expect(doctor.stdout).toContain('All checks passed.')
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
    code: 3,
    stderr: expect.stringContaining('No server answers at http://127.0.0.1:1'),
  })
})
