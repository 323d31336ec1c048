/** Runs a real Keycloak on a loopback port, fetched by Maven once per user, and calls its admin REST API. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { cacheDir } from '../../../stack/binaries.mjs'
import { withLock } from '../../../stack/lock.mjs'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

const VERSION = '26.7.0'
const ARTIFACT = `org.keycloak:keycloak-quarkus-dist:${VERSION}:zip`
const SHA256 = 'e63bd0167199c0092b8a4d22cc137e6b7a70e0089070f6f7799b1be504b69a8a'
/** Limits `aud` to the resource of a request (RFC 8707). */
const FEATURES = 'resource-indicators'
const START_MS = 300_000
const ADMIN = { username: 'admin', password: randomBytes(16).toString('hex') }

const run = promisify(execFile)

export interface Keycloak {
  readonly base: string
  /** Calls the admin REST API below `/admin/realms`. @throws Error with the response */
  // biome-ignore lint/suspicious/noExplicitAny: representations of another product
  admin(method: string, path: string, body?: unknown): Promise<any>
  /** Response of a realm's token endpoint. */
  tokens(realm: string, parameters: Record<string, string>): Promise<Record<string, string>>
  stop(): Promise<void>
}

/** @throws Error with the reason if Keycloak cannot be fetched or does not start */
export async function startKeycloak(): Promise<Keycloak> {
  const home = await keycloakHome()
  const port = await new Ports({ remembered: {}, any: true }).take('keycloak', 0)
  const listening = [`--http-port=${port}`, '--http-host=127.0.0.1', '--db=dev-mem', `--features=${FEATURES}`]
  const child = spawn('sh', [join(home, 'bin/kc.sh'), 'start-dev', ...listening], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group of its own, so that the script and its Java process end together.
    detached: true,
    env: {
      ...process.env,
      JAVA_OPTS_KC_HEAP: '-Xms64m -Xmx512m',
      KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.username,
      KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
    },
  })
  const base = `http://127.0.0.1:${port}`
  try {
    await answers(base, child)
  } catch (error) {
    await end(child)
    throw error
  }
  return { base, ...callsOf(base), stop: () => end(child) }
}

async function answers(base: string, child: ChildProcess): Promise<void> {
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      said = `${said}${chunk}`.slice(-2_000)
    })
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`Keycloak ended: ${said}`)
    const reply = await fetch(`${base}/realms/master`).catch(() => undefined)
    return reply?.ok ? true : undefined
  }, START_MS)
}

async function end(child: ChildProcess): Promise<void> {
  const exited = new Promise((done) => child.once('exit', done))
  if (child.pid === undefined || child.exitCode !== null) return
  process.kill(-child.pid, 'SIGTERM')
  const pid = child.pid
  const timer = setTimeout(() => process.kill(-pid, 'SIGKILL'), 10_000)
  await exited
  clearTimeout(timer)
}

function callsOf(base: string): Pick<Keycloak, 'admin' | 'tokens'> {
  const tokens = async (realm: string, parameters: Record<string, string>) => {
    const body = new URLSearchParams(parameters)
    const reply = await fetch(`${base}/realms/${realm}/protocol/openid-connect/token`, {
      method: 'POST',
      body,
    })
    const text = await reply.text()
    if (!reply.ok) throw new Error(`Keycloak gives no token: ${reply.status} ${text}`)
    return JSON.parse(text) as Record<string, string>
  }
  const admin = async (method: string, path: string, body?: unknown) => {
    const signedIn = await tokens('master', { grant_type: 'password', client_id: 'admin-cli', ...ADMIN })
    const reply = await fetch(`${base}/admin/realms${path}`, {
      method,
      headers: { authorization: `Bearer ${signedIn['access_token']}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await reply.text()
    if (!reply.ok) throw new Error(`Keycloak: ${method} ${path}: ${reply.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
  return { admin, tokens }
}

/** Folder of the distribution, in the cache of the stack's other programs. */
async function keycloakHome(): Promise<string> {
  const home = join(cacheDir(), `keycloak-${VERSION}`)
  await needs('java', ['-version'], 'Java 17 or later')
  if (existsSync(home)) return home
  await needs('mvn', ['-v'], 'Maven, which fetches it,')
  await mkdir(cacheDir(), { recursive: true })
  await withLock(`${home}.lock`, async () => {
    if (!existsSync(home)) await fetchInto(home)
  })
  return home
}

async function needs(command: string, args: string[], what: string): Promise<void> {
  await run(command, args).catch((cause) => {
    throw new Error(`Keycloak cannot be started: ${what} is not there (${command}).`, { cause })
  })
}

async function fetchInto(home: string): Promise<void> {
  const dir = `${home}.fetch`
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { recursive: true })
  try {
    const goal = ['-q', '-B', 'dependency:copy', `-Dartifact=${ARTIFACT}`, `-DoutputDirectory=${dir}`]
    await run('mvn', goal, { cwd: dir, timeout: START_MS }).catch((cause) => {
      throw new Error(`Keycloak cannot be had: Maven does not find ${ARTIFACT}.`, { cause })
    })
    const zip = join(dir, (await readdir(dir)).find((name) => name.endsWith('.zip')) ?? '')
    const hash = createHash('sha256')
    await pipeline(createReadStream(zip), hash)
    if (hash.digest('hex') !== SHA256) throw new Error('Keycloak: what was fetched is not what was pinned.')
    // Every Java distribution has one of the two.
    await run('unzip', ['-q', zip], { cwd: dir }).catch(() => run('jar', ['xf', zip], { cwd: dir }))
    await rename(join(dir, `keycloak-${VERSION}`), home)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
