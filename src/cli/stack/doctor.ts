/** `tenon doctor`: checks the installation, and prints a line for each finding with its remedy. */

import { once } from 'node:events'
import { connect } from 'node:net'
import { S3Client } from '@aws-sdk/client-s3'
import { Connection, Client as TemporalClient } from '@temporalio/client'
import { Client } from 'pg'
import { openPlatform } from '../../app/platform.ts'
import { runChecks } from '../../app/start-checks/start-check.ts'
import { ConfigError } from '../../infra/config.ts'
import { openLog } from '../../infra/log.ts'
import { rootOf, storeOf } from '../../infra/s3/options.ts'
import { clientOptions } from '../../infra/temporal/connection.ts'
import type { Settings } from '../settings.ts'
import { compareObjects } from './compare-objects.ts'
import { findViolations } from './invariants.ts'
import { configOf, ownerSettings, withDerived } from './owner-settings.ts'

/** The result of a check. `detail` says the finding, and the next step if it is not good. */
interface Finding {
  readonly name: string
  readonly good: boolean
  readonly detail: string
}

type Check = (settings: Settings) => Promise<Finding[]>

/** @param deep compares all executions and runs with Temporal, and all objects with the object store, too @returns the exit code: 0 without problems */
export async function doctor(deep = false): Promise<number> {
  const settings = withDerived(await ownerSettings())
  const checks = deep ? [...CHECKS, invariants, objects] : CHECKS
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
  readonly checks: Record<string, { readonly status: string }>
}

/** The API, and whether each part answers it. */
const api: Check = async ({ TENON_URL: url }) => {
  // Processes of an installation do not have it: it is where commands find the API.
  if (!url) return []
  try {
    const response = await fetch(`${url}/readyz`)
    const { checks } = (await response.json()) as Readiness
    const parts = Object.entries(checks).map(([name, { status }]) => ({
      name: `API → ${name}`,
      good: status === 'pass',
      detail: status === 'pass' ? 'passes' : 'fails: an operator reads the cause at GET /v1/status',
    }))
    return [{ name: 'API', good: true, detail: url }, ...parts]
  } catch {
    return [{ name: 'API', good: false, detail: `no answer at ${url}; run \`npm start\`` }]
  }
}

const ui: Check = async ({ TEMPORAL_UI_URL: url }) => {
  const address = hostOf(url)
  return address === undefined ? [] : [await reach('Temporal UI', address)]
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

/** The checks of API and worker at their start, with their settings; then each server that fails, and each task queue without a worker. */
const installation: Check = async (settings) => {
  const config = configOf(settings)
  if (config instanceof ConfigError)
    return config.faults.map((detail) => ({ name: 'settings', good: false, detail }))
  const { platform } = openPlatform(config, openLog('silent', 'doctor'))
  try {
    const checked = await runChecks(platform.startChecks)
    const { parts, idleQueues } = await platform.health.read()
    const servers = parts.flatMap(({ name, status, detail = '' }) =>
      status === 'fail' ? [{ name, detail }] : [],
    )
    const queues = idleQueues.map(({ queue, detail }) => ({ name: queue, detail }))
    return [
      ...checked.map(({ check: { name }, is, detail }) => ({ name, good: is === 'good', detail })),
      ...[...servers, ...queues].map((failing) => ({ ...failing, good: false })),
    ]
  } finally {
    await platform.close()
  }
}

/** Executions and runs whose record contradicts Temporal, or that stand still. */
const invariants: Check = async (settings) => {
  const name = 'executions and runs'
  const config = configOf(settings)
  if (config instanceof ConfigError) return []
  const { namespace } = config.TEMPORAL
  const connection = Connection.lazy(clientOptions(config.TEMPORAL))
  try {
    return await withAllRows(name, settings['DATABASE_URL'], async (database) => {
      const temporal = new TemporalClient({ connection, namespace })
      const found = await findViolations({ database, temporal })
      if (found.length === 0) return [{ name, good: true, detail: 'records and workflows agree' }]
      return found.map(({ rule, subject, detail }) => ({
        name: subject,
        good: false,
        detail: `${rule}: ${detail}`,
      }))
    })
  } finally {
    await connection.close().catch(() => undefined)
  }
}

/** Objects without bytes, and bytes without an object. */
const objects: Check = async (settings) => {
  const name = 'objects'
  const config = configOf(settings)
  if (config instanceof ConfigError) return []
  const store = new S3Client({ ...storeOf(config), credentials: rootOf(config) })
  try {
    return await withAllRows(name, settings['DATABASE_URL'], async (database) => {
      const found = await compareObjects({ database, store })
      if (found.length === 0) return [{ name, good: true, detail: 'catalogue and object store agree' }]
      return found.map(({ bucket, blob, kind }) => ({
        name,
        good: false,
        detail:
          kind === 'missing'
            ? `the bucket ${bucket} has not the bytes ${blob} of an object: restore them from a backup of the object store`
            : `the bucket ${bucket} has bytes ${blob} that no object has: remove them, or restore a newer backup of PostgreSQL`,
      }))
    })
  } finally {
    store.destroy()
  }
}

/** Runs a check that only reads, as a role that sees the rows of all tenants. */
async function withAllRows(
  name: string,
  url: string | undefined,
  check: (database: Client) => Promise<Finding[]>,
): Promise<Finding[]> {
  if (!url) return [{ name, good: false, detail: 'DATABASE_URL is not known' }]
  const database = new Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
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
    return await check(database)
  } catch (error) {
    return [{ name, good: false, detail: error instanceof Error ? error.message : String(error) }]
  } finally {
    await database.end().catch(() => undefined)
  }
}

const CHECKS: readonly Check[] = [node, api, ui, installation]
