/** Mistakes of operators with containers are answered by a sentence that says what to do. */

import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { tryPodman } from './engine.ts'
import { PLATFORM, TOO_OLD } from './images.ts'
import { Installation } from './installation.ts'

const { folder, secrets } = inject('containers')
const installation = new Installation(folder, secrets)
let closed: string

beforeAll(async () => {
  closed = await mkdtemp(join(tmpdir(), 'tenon-closed-'))
  await chmod(closed, 0o755)
})
afterAll(() => rm(closed, { recursive: true, force: true }))

/** Variables of the container of a service, which an operator has set. */
async function environmentOf(service: string): Promise<Record<string, string>> {
  const { Config } = await installation.container(service)
  return Object.fromEntries(
    Config.Env.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
}

/** Runs a command of the platform as its container would. */
async function run(
  env: Readonly<Record<string, string>>,
  mounts: readonly string[],
  ...command: readonly string[]
) {
  const variables = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`])
  const { code, stdout, stderr } = await tryPodman(
    ...['run', '--rm', '--read-only', '--cap-drop=ALL', '--network=tenon_default', ...variables],
    ...[...mounts.flatMap((mount) => ['--volume', mount]), PLATFORM, 'node', ...command],
  )
  return { code, said: `${stdout}${stderr}` }
}

test('secret with a line break at its end: is named, and not shown', async () => {
  const env = await environmentOf('api')
  const key = env['TENON_MASTER_KEY'] ?? ''
  const { code, said } = await run({ ...env, TENON_MASTER_KEY: `${key}\n` }, [], 'dist/api.mjs')
  expect([code, said]).toEqual([1, expect.stringMatching(/TENON_MASTER_KEY/)])
  expect(said).not.toContain(key)
})

test('volume of another owner: the certificate is refused with the user who needs it', async () => {
  const { code, said } = await run(
    {},
    [`${closed}:/identity`],
    'src/cli/main.ts',
    'certificate',
    '/identity/x.pem',
  )
  expect([code, said]).toEqual([
    1,
    expect.stringMatching(/cannot be written to \/identity\/x\.pem \(EACCES\).* 1000:1000/),
  ])
})

test('volume without the right to write: the certificate is refused with the folder', async () => {
  const mounts = [`${closed}:/identity:ro`]
  const { code, said } = await run({}, mounts, 'src/cli/main.ts', 'certificate', '/identity/x.pem')
  expect([code, said]).toEqual([1, expect.stringMatching(/\/identity, in a container its volume/)])
})

test('wrong version of an image: PostgreSQL 15 is refused before anything is changed', async () => {
  const name = 'tenon-postgres-15'
  const start = ['--network=tenon_default', '--tmpfs', '/var/lib/postgresql:mode=1777', '--user', 'postgres']
  const access = ['--env', 'POSTGRES_PASSWORD=old', '--env', 'POSTGRES_DB=tenon']
  const logins = ['--volume', `${folder}/deploy/postgres:/deploy:ro`]
  const command = ['postgres', '-c', 'hba_file=/deploy/pg_hba.conf']
  try {
    const options = ['--detach', '--name', name, ...start, ...access, ...logins]
    const started = await tryPodman('run', ...options, TOO_OLD, ...command)
    expect(started.code, started.stderr).toBe(0)
    await expect
      .poll(async () => (await tryPodman('exec', name, 'pg_isready', '-h', '127.0.0.1')).code)
      .toBe(0)
    const env = {
      ...(await environmentOf('migrate')),
      DATABASE_URL: `postgres://postgres:old@${name}:5432/tenon`,
    }
    const { code, said } = await run(env, [], 'src/cli/main.ts', 'migrate')
    expect([code, said]).toEqual([1, expect.stringMatching(/PostgreSQL 18 or newer is needed.* version 15/)])
  } finally {
    await tryPodman('rm', '--force', '--time', '0', name)
  }
})
