/** `tenon doctor`: checks the installation, and prints a line for each finding with its remedy. */

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { Connection, Client as TemporalClient } from '@temporalio/client'
import { Client } from 'pg'
import { findRunning } from '../../../stack/start.ts'
import { describeLayers, findIsolation } from '../../features/functions/sandbox/isolation.ts'
import { FAILURES, type FailureKind, SERVERS, type ServerName } from '../../infra/health-report.ts'
import { MongoDocuments } from '../../infra/mongo/mongo.ts'
import { readSettings, type Settings } from '../settings.ts'
import { findViolations } from './invariants.ts'

interface Finding {
  readonly name: string
  readonly good: boolean
  readonly detail: string
}

type Check = (settings: Settings) => Promise<Finding[]>

/** @param deep compares the records of all executions and runs with Temporal, too @returns the exit code: 0 without problems */
export async function doctor(deep = false): Promise<number> {
  const settings: Settings = { ...findRunning(resolve('.tenon'))?.env, ...(await readSettings()) }
  const checks = deep ? [...CHECKS, invariants] : CHECKS
  const findings = (await Promise.all(checks.map((check) => check(settings)))).flat()
  for (const { name, good, detail } of findings) {
    process.stdout.write(`${good ? '✓' : '✗'} ${name.padEnd(20)} ${detail}\n`)
  }
  const bad = findings.filter(({ good }) => !good).length
  process.stdout.write(
    bad === 0 ? '\nAll checks passed.\n' : `\n${bad} of ${findings.length} checks failed.\n`,
  )
  return bad === 0 ? 0 : 1
}

const node: Check = async () => {
  const [major = 0] = process.versions.node.split('.').map(Number)
  const good = major >= 24
  return [
    { name: 'Node', good, detail: `${process.versions.node}${good ? '' : '; 24 or newer is required'}` },
  ]
}

interface Readiness {
  readonly checks: Record<string, { readonly status: string; readonly ms: number; readonly cause?: string }>
  readonly idle_queues?: readonly { readonly queue: string; readonly detail: string }[]
}

/** The API, and each server and task queue as the API sees it. */
const api: Check = async ({ TENON_URL: url }) => {
  if (!url) return [{ name: 'API', good: false, detail: 'TENON_URL is not set; run `npm start`' }]
  try {
    const response = await fetch(`${url}/readyz`)
    const { checks, idle_queues: idle = [] } = (await response.json()) as Readiness
    const servers = Object.entries(checks).map(([name, { status, ms, cause }]) => ({
      name: `API → ${name}`,
      good: status === 'pass',
      detail: status === 'pass' ? `answers in ${ms} ms` : findingOf(name, cause),
    }))
    const queues = idle.map(({ queue, detail }) => ({ name: queue, good: false, detail }))
    return [{ name: 'API', good: true, detail: url }, ...servers, ...queues]
  } catch {
    return [{ name: 'API', good: false, detail: `no answer at ${url}; run \`npm start\`` }]
  }
}

/** What `/readyz` says of a check that fails, as a sentence. */
function findingOf(name: string, cause = 'failed'): string {
  const title = SERVERS[name as ServerName] ?? name
  return `${title} ${FAILURES[cause as FailureKind] ?? FAILURES.failed}`
}

const ports: Check = async (settings) => {
  const addresses = [
    ['Temporal', settings['TEMPORAL_ADDRESS']],
    ['Temporal UI', hostOf(settings['TEMPORAL_UI_URL'])],
    ['SeaweedFS', hostOf(settings['S3_ENDPOINT'])],
    ['Valkey', hostOf(settings['REDIS_URL'])],
  ] as const
  return Promise.all(
    addresses.flatMap(([name, address]) => (address === undefined ? [] : [reach(name, address)])),
  )
}

function hostOf(url: string | undefined): string | undefined {
  return url !== undefined && URL.canParse(url) ? new URL(url).host : undefined
}

async function reach(name: string, address: string): Promise<Finding> {
  const [host = '', port = ''] = address.split(':')
  const socket = connect({ host, port: Number(port) })
  const good = await once(socket, 'connect', { signal: AbortSignal.timeout(2_000) }).then(
    () => true,
    () => false,
  )
  socket.on('error', () => {}).destroy()
  return { name, good, detail: good ? address : `${address} does not answer` }
}

/** What the server of documents does with concurrent changes, if there is one besides PostgreSQL. */
const documents: Check = async ({ MONGODB_URL: url }) => {
  if (!url) return []
  const store = new MongoDocuments(url)
  try {
    const faults = await store.findFaults()
    if (faults.length > 0) return faults.map((detail) => ({ name: 'MongoDB', good: false, detail }))
    return [{ name: 'MongoDB', good: true, detail: 'decides concurrent changes one after the other' }]
  } catch (error) {
    return [{ name: 'MongoDB', good: false, detail: error instanceof Error ? error.message : String(error) }]
  } finally {
    await store.close()
  }
}

/** Isolation depends on roles that cannot bypass row-level security; the database is asked directly. */
const roles: Check = async ({ DATABASE_URL: url }) => {
  if (!url)
    return [{ name: 'PostgreSQL roles', good: false, detail: 'DATABASE_URL is not known; run `npm start`' }]
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  try {
    await client.connect()
    const { rows } = await client.query(
      `select rolname, rolsuper, rolbypassrls from pg_roles where rolname like 'tenon\\_%' order by 1`,
    )
    const { rows: unforced } = await client.query(
      `select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = 'tenon' and c.relkind = 'r' and not (c.relrowsecurity and c.relforcerowsecurity)`,
    )
    const good = unforced.length === 0
    const tables = unforced.map(({ relname }) => relname).join(', ')
    const detail = good ? 'forced on every table' : `not forced on ${tables}`
    return [...rows.map(roleFinding), { name: 'row-level security', good, detail }]
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    return [{ name: 'PostgreSQL', good: false, detail }]
  } finally {
    await client.end().catch(() => undefined)
  }
}

function roleFinding(role: { rolname: string; rolsuper: boolean; rolbypassrls: boolean }): Finding {
  const wrong = [role.rolsuper && 'superuser', role.rolbypassrls && 'BYPASSRLS'].filter(Boolean)
  const detail =
    wrong.length === 0 ? 'neither superuser nor BYPASSRLS' : `is ${wrong.join(' and ')}: isolation is off`
  return { name: role.rolname, good: wrong.length === 0, detail }
}

/** Only functions need Deno. */
const deno: Check = async ({ TENON_DENO_BIN: path }) => {
  if (!path) {
    const detail = 'not installed: functions answer 503; restart with a network, or set TENON_DENO_BIN'
    return [{ name: 'Deno', good: false, detail }]
  }
  try {
    const { stdout } = await promisify(execFile)(path, ['--version'], { timeout: 5_000 })
    const version = /^deno (\S+)/.exec(stdout)?.[1] ?? ''
    const good = version.startsWith('2.')
    return [{ name: 'Deno', good, detail: `${version} at ${path}${good ? '' : '; Deno 2 is required'}` }]
  } catch {
    return [{ name: 'Deno', good: false, detail: `${path} does not run: functions answer 503` }]
  }
}

/** The layers that isolate a function from the host, as a worker of this user finds them. */
const isolation: Check = async ({ TENON_DENO_BIN: path }) => {
  if (!path) return []
  const { layers } = await findIsolation(path)
  const { active, missing } = describeLayers(layers)
  const wanting = missing.length === 0 ? '' : `; missing: ${missing.join('; ')}`
  // Each of them protects the platform from a function that has escaped Deno; other systems than Linux have neither.
  const good = layers.ownUser || layers.sandbox?.name === 'bwrap' || process.platform !== 'linux'
  return [{ name: 'functions isolation', good, detail: `${active.join(', ')}${wanting}` }]
}

/** Executions and runs whose record contradicts Temporal, or that stand still. */
const invariants: Check = async ({
  DATABASE_URL: url,
  TEMPORAL_ADDRESS: address,
  TEMPORAL_NAMESPACE: namespace,
}) => {
  const name = 'executions and runs'
  if (!url || !address)
    return [{ name, good: false, detail: 'DATABASE_URL or TEMPORAL_ADDRESS is not known' }]
  const database = new Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  const connection = Connection.lazy({ address })
  try {
    await database.connect()
    const { rows } = await database.query(
      `select rolsuper or rolbypassrls as sees_all from pg_roles where rolname = current_user`,
    )
    if (!rows[0]?.sees_all)
      return [
        {
          name,
          good: false,
          detail: 'not checked: row-level security hides rows from the role of DATABASE_URL',
        },
      ]
    await database.query('set default_transaction_read_only = on')
    const temporal = new TemporalClient({ connection, ...(namespace && { namespace }) })
    const found = await findViolations({ database, temporal })
    if (found.length === 0) return [{ name, good: true, detail: 'records and workflows agree' }]
    return found.map(({ rule, subject, detail }) => ({
      name: subject,
      good: false,
      detail: `${rule}: ${detail}`,
    }))
  } catch (error) {
    return [{ name, good: false, detail: error instanceof Error ? error.message : String(error) }]
  } finally {
    await Promise.all([database.end(), connection.close()]).catch(() => undefined)
  }
}

const CHECKS: readonly Check[] = [node, api, ports, documents, roles, deno, isolation]
