/** Credentials of `.env.local` go to the TENON_URL of that file only, and the CLI reports workspace and role. */

import { execFile } from 'node:child_process'
import { watch } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { writeEnvFile } from '../../src/cli/settings.ts'
import { type EndedCommand, runCommand } from '../support/clients/cli.ts'
import { createTestWorkspace, type TestWorkspace } from '../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let folder: string
let other: Server
let otherUrl: string
/** Requests received by the other server. */
let received: IncomingMessage[]

beforeAll(async () => {
  workspace = await createTestWorkspace()
  folder = await mkdtemp(join(tmpdir(), 'tenon-cli-'))
  other = createServer((request, response) => {
    received.push(request)
    response.setHeader('content-type', 'application/json')
    response.end('{"access_token":"x","token_type":"Bearer"}')
  })
  await new Promise<void>((done) => other.listen(0, '127.0.0.1', done))
  otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
})
afterAll(async () => {
  other?.close()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(() => {
  received = []
})

/** Settings as `npm start` writes them. */
const fileSettings = (): Record<string, string> => {
  const { url, clientId, clientSecret } = inject('tenon')
  return {
    TENON_URL: url,
    TENON_WORKSPACE_ID: workspace.workspaceId,
    TENON_SERVICE_KEY: workspace.service['apikey'] ?? '',
    TENON_CLIENT_ID: clientId,
    TENON_CLIENT_SECRET: clientSecret,
    TENON_TOKEN: '',
  }
}

/** Runs the CLI in a folder with this `.env.local`; of Tenon's variables its environment has only `env`. */
async function runCli(
  args: readonly string[],
  file: Record<string, string>,
  env: Record<string, string> = {},
): Promise<EndedCommand> {
  const lines = Object.entries(file).flatMap(([name, value]) => (value === '' ? [] : [`${name}=${value}\n`]))
  await writeFile(join(folder, '.env.local'), lines.join(''))
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('TENON_'))
  return runCommand(args, {
    env: { ...Object.fromEntries(inherited), ...env },
    workingDir: folder,
    callerDir: folder,
  })
}

const withoutUrl = ({ TENON_URL: _, ...rest }: Record<string, string>) => rest

describe('TENON_URL in the environment differs from the file', () => {
  test.each([
    ['token', ['token'], 'TENON_CLIENT_ID'],
    ['flow list', ['flow', 'list'], 'TENON_WORKSPACE_ID'],
    ['flow list of a named workspace', ['flow', 'list', '--workspace', 'ws_x'], 'TENON_CLIENT_ID'],
    ['collection list', ['collection', 'list', 'todos'], 'TENON_SERVICE_KEY'],
    ['event subscribe', ['event', 'subscribe', 'a'], 'TENON_SERVICE_KEY'],
    ['mcp token', ['mcp', 'token', 'x', '--workspace', 'ws_x'], 'TENON_CLIENT_ID'],
    ['demo', ['demo'], 'TENON_CLIENT_ID'],
  ])('tenon %s: refuses in one line, sends nothing', async (_, args, name) => {
    const file = fileSettings()
    const { code, stdout, stderr } = await runCli(args, file, { TENON_URL: otherUrl })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(
      `${name} of .env.local is sent only to ${file['TENON_URL']}, and TENON_URL is ${otherUrl}. Set ${name} in the environment as well, or unset TENON_URL.\n`,
    )
    expect(received).toEqual([])
  })

  test('TENON_TOKEN in the file: refused like the other credentials', async () => {
    const file = { ...fileSettings(), TENON_TOKEN: 'abc' }
    const { stderr } = await runCli(['token'], file, { TENON_URL: otherUrl })
    expect(stderr).toMatch(/^TENON_TOKEN of \.env\.local is sent only to /)
  })

  test("wrong secret: shows the issuer's reason, no token", async () => {
    const file = { ...fileSettings(), TENON_CLIENT_SECRET: 'wrong' }
    const { code, stdout, stderr } = await runCli(['token'], file)
    expect([code, stdout, stderr]).toEqual([
      1,
      '',
      'The token request failed: client authentication failed\n',
    ])
  })

  test('quotes around a value of the file: not part of the value', async () => {
    const file = { ...fileSettings(), TENON_URL: `"${inject('tenon').url}"`, TENON_TOKEN: "'abc'" }
    const { stderr } = await runCli(['token'], file, { TENON_URL: otherUrl })
    expect(stderr).toMatch(`TENON_TOKEN of .env.local is sent only to ${inject('tenon').url}, `)
    expect(await runCli(['token'], file)).toMatchObject({ code: 0, stdout: 'abc\n' })
  })

  test('credential as a file of the caller: used like one of the environment; a missing one is refused by its name', async () => {
    await writeFile(join(folder, 'token'), 'of-a-file\n')
    const env = { TENON_URL: otherUrl, TENON_TOKEN_FILE: 'token' }
    expect(await runCli(['token'], fileSettings(), env)).toMatchObject({ code: 0, stdout: 'of-a-file\n' })
    const { code, stderr } = await runCli(['token'], fileSettings(), { ...env, TENON_TOKEN_FILE: 'none' })
    expect(code).toBe(1)
    expect(stderr).toContain('TENON_TOKEN_FILE names a file that cannot be read: ENOENT.')
  })

  test("only the client id in the environment: the file's secret is not sent", async () => {
    const { code, stderr } = await runCli(['token'], fileSettings(), {
      TENON_URL: otherUrl,
      TENON_CLIENT_ID: 'mine',
    })
    expect([code, received]).toEqual([1, []])
    expect(stderr).toMatch(/^TENON_CLIENT_SECRET of \.env\.local is sent only to /)
  })

  test('other port, scheme or host with the same beginning: counts as another platform', async () => {
    const file = { ...fileSettings(), TENON_URL: 'http://tenon.example:8787' }
    for (const TENON_URL of [
      'http://tenon.example:8788',
      'https://tenon.example:8787',
      'http://tenon.example:8787.evil.example',
      'http://tenon.example:8787@evil.example',
      'tenon.example:8787',
    ])
      expect((await runCli(['token'], file, { TENON_URL })).stderr).toContain('of .env.local is sent only to')
  })

  test('credentials in the environment: sent there', async () => {
    const env = { TENON_URL: otherUrl, TENON_CLIENT_ID: 'mine', TENON_CLIENT_SECRET: 'own' }
    const { code, stdout } = await runCli(['token', '--quiet'], fileSettings(), env)
    expect([code, stdout]).toEqual([0, 'x\n'])
    expect(received.map(({ headers }) => headers.authorization)).toEqual([`Basic ${btoa('mine:own')}`])
  })
})

test('file with credentials but without TENON_URL: credentials are not sent', async () => {
  const { code, stderr } = await runCli(['token'], withoutUrl(fileSettings()), { TENON_URL: otherUrl })
  expect([code, received]).toEqual([1, []])
  expect(stderr).toBe(
    `TENON_CLIENT_ID of .env.local is not sent to ${otherUrl}: the file has no TENON_URL. Set TENON_CLIENT_ID in the environment as well, or TENON_URL in the file.\n`,
  )
})

test('platform of the file redirects to another server: no credential follows', async () => {
  const first = createServer((request, response) =>
    response.writeHead(307, { location: `${otherUrl}${request.url}` }).end(),
  )
  await new Promise<void>((done) => first.listen(0, '127.0.0.1', done))
  try {
    const file = { ...fileSettings(), TENON_URL: `http://127.0.0.1:${(first.address() as AddressInfo).port}` }
    for (const args of [['collection', 'list', 'todos'], ['token'], ['event', 'subscribe', 'a']])
      expect([args, (await runCli(args, file)).code]).toEqual([args, 1])
    expect(received).toEqual([])
  } finally {
    first.close()
  }
})

describe('TENON_URL is that of the file', () => {
  test.each(['unset', 'set as well'])(
    'TENON_URL in the environment %s, key of the file: one line on stderr, JSON only on stdout',
    async (set) => {
      const file = fileSettings()
      const url = file['TENON_URL'] ?? ''
      const { code, stdout, stderr } = await runCli(
        ['collection', 'list', 'todos'],
        file,
        set === 'unset' ? {} : { TENON_URL: url },
      )
      expect([code, JSON.parse(stdout).data]).toEqual([0, []])
      expect(stderr).toBe(
        `tenon: workspace ${workspace.workspaceId}, role service, ${url}, credentials of .env.local\n`,
      )
    },
  )

  test('operator: reports the workspace of the command and the role of the token', async () => {
    const file = fileSettings()
    const { stderr } = await runCli(['flow', 'list'], file)
    expect(stderr).toBe(
      `tenon: workspace ${workspace.workspaceId}, role operator, ${file['TENON_URL']}, credentials of .env.local\n`,
    )
    const named = await runCli(['quota', 'show', '--workspace', workspace.workspaceId], file)
    expect(named.stderr).toBe(stderr)
  })

  test('credentials of the environment: the file is not mentioned', async () => {
    const { stderr } = await runCli(['collection', 'list', 'todos'], {}, fileSettings())
    expect(stderr).toBe(`tenon: workspace ${workspace.workspaceId}, role service, ${inject('tenon').url}\n`)
  })

  test('tenon token: token only on stdout, role on stderr', async () => {
    const { stdout, stderr } = await runCli(['token'], fileSettings())
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
    expect(stderr).toBe(`tenon: role operator, ${inject('tenon').url}, credentials of .env.local\n`)
  })

  test.each([
    ['--quiet at the end', ['collection', 'list', 'todos', '--quiet'], {}],
    ['--quiet at the beginning', ['--quiet', 'collection', 'list', 'todos'], {}],
    ['TENON_QUIET', ['collection', 'list', 'todos'], { TENON_QUIET: '1' }],
  ])('%s: nothing on stderr', async (_, args, env) => {
    const { code, stderr } = await runCli(args, fileSettings(), env)
    expect([code, stderr]).toEqual([0, ''])
  })
})

test('file of credentials: git and the build of the image ignore it, and the draft of each change', async () => {
  await writeEnvFile(fileSettings(), folder)
  const draft = watch(folder)
  const seen = new Set<string>()
  draft.on('change', (_event, name) => seen.add(String(name)))
  await writeEnvFile(fileSettings(), folder)
  await expect.poll(() => seen.size).toBeGreaterThan(1)
  draft.close()
  expect(seen).toContain('.env.local')
  const { stdout } = await promisify(execFile)('git', ['check-ignore', ...seen])
  expect(stdout.trim().split('\n').toSorted()).toEqual([...seen].toSorted())
  expect(await readFile('.dockerignore', 'utf8')).toMatch(/^\.env\.local\*$/m)
})
