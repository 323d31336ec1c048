/** Layers of isolation below Deno's permissions: a program with all permissions reaches nothing of the platform. */

import { spawn } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  describeLayers,
  findIsolation,
  Isolation,
  type Layers,
} from '../../src/features/functions/sandbox/isolation.ts'
import { Functions } from '../../src/features/functions/sandbox/process-pool.ts'
import { testInvocation } from '../support/fixtures/invocations.ts'

const isRoot = process.getuid?.() === 0
let folder: string
let server: Server
let deno: string
let isolation: Isolation

beforeAll(async () => {
  deno = inject('tenon').env['TENON_DENO_BIN'] ?? ''
  // Others may enter the folder, so that file permissions decide.
  folder = await mkdtemp(join(tmpdir(), 'tenon-isolation-'))
  await chmod(folder, 0o755)
  for (const name of ['master.key', '.env.local'])
    await writeFile(join(folder, name), 'secret', { mode: 0o600 })
  server = createServer((socket) => socket.end('inside'))
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  isolation = await findIsolation(deno)
})
afterAll(async () => {
  server?.close()
  await rm(folder, { recursive: true, force: true })
})

/** The actions in which the program succeeded. */
interface Capabilities {
  readonly key: boolean
  readonly env: boolean
  readonly environ: boolean
  readonly kill: boolean
  readonly network: boolean
  readonly write: boolean
}

const PROGRAM = `
const { folder, pid, port } = JSON.parse(Deno.args[0] ?? '{}')
const can = async (work) => { try { await work(); return true } catch { return false } }
console.log(JSON.stringify({
  key: await can(() => Deno.readTextFile(folder + '/master.key')),
  env: await can(() => Deno.readTextFile(folder + '/.env.local')),
  environ: await can(() => Deno.readTextFile('/proc/' + pid + '/environ')),
  kill: await can(() => Deno.kill(pid, 'SIGURG')),
  network: await can(() => Deno.connect({ hostname: '127.0.0.1', port })),
  write: await can(() => Deno.writeTextFile('/tmp/tenon-isolation-' + pid, 'x').then(() => Deno.remove('/tmp/tenon-isolation-' + pid))),
}))
`

/** Runs Deno with all permissions (`-A`) in layers, as if a function had escaped its permissions. */
async function runUnrestricted(layers: Layers): Promise<Capabilities> {
  const module = `data:text/javascript;base64,${Buffer.from(PROGRAM).toString('base64')}`
  const { port } = server.address() as { port: number }
  const argument = JSON.stringify({ folder, pid: process.pid, port })
  const { command, args, user } = new Isolation(layers).start(deno, [
    'run',
    '-A',
    '--no-config',
    module,
    argument,
  ])
  const child = spawn(command, args, {
    ...{ ...user, cwd: '/', env: { DENO_DIR: '/dev/null/none', NO_COLOR: '1' }, detached: true },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 30_000,
    killSignal: 'SIGKILL',
  })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  // A layer that cannot set a limit reports it on stderr.
  if (out === '' || err !== '') throw new Error(`It did not run: ${err}`)
  return JSON.parse(out) as Capabilities
}

const SECRETS = { key: false, env: false, environ: false, kill: false }

/** A sandbox program from PATH that works for this user, if any. */
async function sandboxOf(name: 'bwrap' | 'unshare'): Promise<Layers['sandbox']> {
  for (const at of (process.env['PATH'] ?? '').split(delimiter)) {
    const { layers } = await findIsolation(deno, at)
    if (layers.sandbox?.name === name) return layers.sandbox
  }
  return undefined
}

describe('program with all Deno permissions', () => {
  test('no layer: reaches all that the worker reaches', async () => {
    const all = { key: true, env: true, environ: true, kill: true, network: true, write: true }
    expect(await runUnrestricted({ ownUser: false, sandbox: undefined })).toEqual(all)
  })

  test('layers found on this machine: reads no secret of the platform', async ({ skip }) => {
    const { ownUser, sandbox } = isolation.layers
    if (!ownUser && sandbox?.name !== 'bwrap') return skip('This machine has no layer that keeps files.')
    expect(await runUnrestricted(isolation.layers)).toMatchObject(SECRETS)
  })

  test.runIf(isRoot)('own user only: no file, environment or process of the worker', async () => {
    expect(await runUnrestricted({ ownUser: true, sandbox: undefined })).toMatchObject({
      ...SECRETS,
      network: true,
    })
  })

  test('unshare: no network, environment or signals', async ({ skip }) => {
    const sandbox = await sandboxOf('unshare')
    if (sandbox === undefined) return skip('unshare does not work here.')
    const tried = await runUnrestricted({ ownUser: false, sandbox })
    expect(tried).toMatchObject({ environ: false, kill: false, network: false })
    if (isRoot)
      expect(await runUnrestricted({ ownUser: true, sandbox })).toMatchObject({ ...SECRETS, network: false })
  })

  test('bwrap: nothing at all, for any user of the worker', async ({ skip }) => {
    const sandbox = await sandboxOf('bwrap')
    if (sandbox === undefined) return skip('There is no bwrap here, or it does not work.')
    const nothing = { ...SECRETS, network: false, write: false }
    expect(await runUnrestricted({ ownUser: false, sandbox })).toEqual(nothing)
    if (isRoot) expect(await runUnrestricted({ ownUser: true, sandbox })).toEqual(nothing)
  })
})

describe('functions in the layers found', () => {
  test.runIf(isRoot)('each process: own user, no groups of root', async () => {
    const users = [1, 2, 3].map(() => isolation.start('/bin/true', []).user)
    expect(new Set(users.map(({ uid }) => uid)).size).toBe(3)
    for (const { uid, gid } of users)
      expect([uid === gid, Number(uid) >= 61_184, Number(uid) < 65_520]).toEqual([true, true, true])
    const { command, args, user } = isolation.start('/bin/sh', ['-c', 'id -G; ulimit -c'])
    const child = spawn(command, args, { ...user, cwd: '/', env: {}, stdio: ['ignore', 'pipe', 'inherit'] })
    expect(await text(child.stdout)).toMatch(/^\d{5}\n0\n$/)
  })

  test('call: answered; excessive memory: detected through the sandbox', async () => {
    const functions = new Functions(deno)
    try {
      const adds = testInvocation('export default ({ n }) => n + 1', { input: { n: 1 } })
      expect(await functions.run(adds)).toMatchObject({ result: 2 })
      const buffers =
        'export default () => { const all = []; for (;;) all.push(new Uint8Array(8e6).fill(1)) }'
      const hoards = testInvocation(buffers, { memoryMb: 64, timeoutMs: 20_000 })
      await expect(functions.run(hoards)).rejects.toMatchObject({ code: 'function_out_of_memory' })
    } finally {
      await functions.close()
    }
  })

  test('neither bwrap nor unshare on PATH: functions run, the doctor says how to install them', async () => {
    const { layers } = await findIsolation(deno, '/nowhere')
    expect(layers).toEqual({ ownUser: isRoot, sandbox: undefined })
    const { active, missing } = describeLayers(layers)
    expect(active[0]).toBe('deno permissions')
    expect(missing.at(-1)).toMatch(/^bwrap: install bubblewrap/)
  })
})

test('log of the running worker: names the layers', async () => {
  const log = await readFile(join(inject('tenon').logs, 'worker.log'), 'utf8')
  expect(log).toMatch(/"check":"functions"[^\n]*isolated by deno permissions/)
})
