/** Starts PostgreSQL 18 on a loopback port with a password; as root, under an account without rights. */

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { binary } from './binaries.mjs'
import { identify } from './lock.mjs'
import { embedded, hostOf, repeatedly, type Server, type StartContext, type Started } from './server.ts'

const PREFERRED_PORT = 54_320
const PROBE_MS = 3_000

export const postgres: Server = {
  name: 'postgres',
  title: 'PostgreSQL',
  urlVariable: 'DATABASE_URL',
  start,
  inspect: async (url) => ({
    info: {
      name: 'postgres',
      title: 'PostgreSQL',
      version: await serverVersion(url),
      address: hostOf(url),
      origin: 'external',
    },
    env: { DATABASE_URL: url },
  }),
}

async function start(context: StartContext): Promise<Started> {
  const home = await postgresHome(context)
  await prepareData(home, context)
  return repeatedly(context, 'PostgreSQL', () => run(context, home))
}

async function run(context: StartContext, home: PostgresHome): Promise<Started> {
  const port = await context.ports.take('postgres', PREFERRED_PORT)
  const url = `postgres://postgres:${context.secrets.postgresPassword}@127.0.0.1:${port}/postgres`
  let version = ''
  await context.supervisor.run({
    name: 'postgres',
    command: join(home.bin, 'postgres'),
    args: ['-D', home.data, ...settings(port, context.ephemeral).flatMap((setting) => ['-c', setting])],
    logFile: join(context.dir, 'logs', 'postgres.log'),
    stage: 0,
    cwd: '/',
    ...home.account,
    // Fast shutdown; SIGTERM waits for clients.
    stopSignal: 'SIGINT',
    ready: async () => {
      version = await serverVersion(url)
    },
  })
  const { outside } = home
  return {
    info: embedded(context, { name: 'postgres', title: 'PostgreSQL', version, address: hostOf(url) }),
    env: { DATABASE_URL: url },
    ...(context.ephemeral &&
      outside !== undefined && { dispose: () => rm(outside, { recursive: true, force: true }) }),
  }
}

function settings(port: number, ephemeral: boolean): string[] {
  const durable = ephemeral ? ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off'] : []
  return [
    `port=${port}`,
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'max_connections=200',
    // For incremental backups (src/backup).
    'summarize_wal=on',
    // A backup that nobody follows any more must not fill the disk.
    'max_slot_wal_keep_size=4GB',
    ...durable,
  ]
}

async function serverVersion(url: string): Promise<string> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: PROBE_MS,
    query_timeout: PROBE_MS,
  })
  // Without a listener, a lost connection ends the process.
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ server_version: string }>('show server_version')
    return rows[0]?.server_version.split(' ')[0] ?? ''
  } finally {
    await client.end().catch(() => {})
  }
}

const OUTSIDE = '/var/lib/tenon'

/** The user that runs PostgreSQL. */
interface Account {
  readonly uid: number
  readonly gid: number
}

export interface PostgresHome {
  /** Default: the user of this process. */
  readonly account: Account | undefined
  /** Folder with initdb and postgres. */
  readonly bin: string
  readonly data: string
  /** Folder outside the data folder of the stack; an ephemeral stack removes it. */
  readonly outside: string | undefined
}

type HomeContext = Pick<StartContext, 'dir' | 'secrets' | 'env' | 'signal' | 'progress'>

/** Finds programs and data folder. As root, both must be where an unprivileged user can reach them. */
export async function postgresHome(context: HomeContext): Promise<PostgresHome> {
  const { account, bin } = await postgresPrograms(context)
  if (account === undefined || isReachable(context.dir))
    return { account, bin, data: join(context.dir, 'postgres'), outside: undefined }
  // A new installation at the same path gets a new folder.
  const id = createHash('sha256')
    .update(`${context.dir}\n${context.secrets.installation}`)
    .digest('hex')
    .slice(0, 16)
  const outside = join(OUTSIDE, id)
  await mkdir(outside, { recursive: true, mode: 0o755 })
  return { account, bin, data: join(outside, 'postgres'), outside }
}

/** Where all users can reach it. */
const SHARED_CACHE = '/var/cache/tenon'

/** Finds or fetches the programs of PostgreSQL, and the account that runs them. @throws BinaryUnavailable */
export async function postgresPrograms({
  env,
  signal,
  progress,
}: Pick<StartContext, 'env' | 'signal' | 'progress'>): Promise<Pick<PostgresHome, 'account' | 'bin'>> {
  const account = process.getuid?.() === 0 ? unprivilegedAccount() : undefined
  const find = (environment: NodeJS.ProcessEnv) =>
    binary('postgres', { env: environment, signal, onFetch: (what) => progress('fetching', what) })
  let path = await find(env)
  if (account !== undefined && !isReachable(dirname(path)))
    path = await find({ ...env, TENON_CACHE_DIR: SHARED_CACHE })
  progress('starting', 'PostgreSQL')
  return { account, bin: dirname(path) }
}

/** Tells if all users may enter every folder of a path. */
function isReachable(path: string): boolean {
  for (let folder = path; ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false
    if (folder === dirname(folder)) return true
  }
}

function unprivilegedAccount(): Account {
  const rows = readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = rows.find((row) => row.startsWith(`${name}:`))?.split(':') ?? []
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new Error('PostgreSQL does not run as root, and there is no user "postgres" or "nobody" to run it')
}

const MAJOR = '18'
const ORPHAN_MS = 6_000

/** Creates the data folder, or repairs it after a crash. The caller holds the lock of the installation. */
async function prepareData(home: PostgresHome, context: StartContext): Promise<void> {
  await removeDrafts(home.data)
  if (existsSync(join(home.data, 'PG_VERSION'))) {
    const major = (await readFile(join(home.data, 'PG_VERSION'), 'utf8')).trim()
    if (major !== MAJOR)
      throw new Error(`${home.data} was written by PostgreSQL ${major}, this one is ${MAJOR}`)
    return removeStalePidFile(home.data)
  }
  if (existsSync(home.data)) await rename(home.data, `${home.data}.broken-${Date.now()}`)
  await initialise(home, context)
}

async function initialise(home: PostgresHome, { secrets, signal }: StartContext): Promise<void> {
  const draft = `${home.data}.draft`
  const passwordFile = `${home.data}.draft-password`
  await mkdir(draft, { recursive: true, mode: 0o700 })
  await writeFile(passwordFile, secrets.postgresPassword, { mode: 0o600 })
  if (home.account !== undefined) {
    await chown(draft, home.account.uid, home.account.gid)
    await chown(passwordFile, home.account.uid, home.account.gid)
  }
  const args = [
    ...['-D', draft, '--username=postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256'],
    ...['--encoding=UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'],
    // A crash before the folder is renamed starts over.
    '--no-sync',
  ]
  try {
    await runAs(home.account, join(home.bin, 'initdb'), args, signal)
    await rename(draft, home.data)
  } finally {
    await rm(passwordFile, { force: true })
  }
}

/** Removes what an interrupted start, or an interrupted restore, has left. */
export async function removeDrafts(data: string): Promise<void> {
  const names = await readdir(dirname(data)).catch(() => [])
  const drafts = names.filter((name) => name.startsWith(`${basename(data)}.draft`))
  // A server that is ending writes to its folder.
  await Promise.all(
    drafts.map((name) => rm(join(dirname(data), name), { recursive: true, force: true, maxRetries: 10 })),
  )
}

/**
 * PostgreSQL refuses to start if the pid in its file is alive, even as another program. An orphaned PostgreSQL ends a few
 * seconds after its parent; another process in the file is left alone, and the file is removed.
 */
async function removeStalePidFile(data: string): Promise<void> {
  const file = join(data, 'postmaster.pid')
  const deadline = Date.now() + ORPHAN_MS
  while (existsSync(file)) {
    const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
    if (!Number.isInteger(pid) || pid <= 0 || !isPostgresOf(pid, data)) return rm(file, { force: true })
    if (Date.now() > deadline)
      throw new Error(`Another PostgreSQL (pid ${pid}) is running in ${data}. Stop it first`)
    await delay(100)
  }
}

function isPostgresOf(pid: number, data: string): boolean {
  if (identify(pid) === undefined) return false
  if (process.platform !== 'linux') return true
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(data)
  } catch {
    // Not readable: another user than the one that runs PostgreSQL here.
    return false
  }
}

async function runAs(
  account: Account | undefined,
  command: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const env = { PATH: process.env['PATH'] }
  await promisify(execFile)(command, args, { ...account, cwd: '/', env, signal }).catch((error) => {
    throw new Error(`initdb failed: ${String(error.stderr || error.message).trim()}`, { cause: error })
  })
}
