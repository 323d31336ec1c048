/** `tenon migrate`: brings the database and Temporal to this build; `--check` says what that would do. */

import { Connection } from '@temporalio/client'
import type { Client } from 'pg'
import { ConfigError, parseConfig } from '../../infra/config.ts'
import { withMasterKeys } from '../../infra/crypto/key-provider.ts'
import { DERIVED, deriveSecret } from '../../infra/crypto/secrets.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { withAdminSession } from '../../infra/postgres/admin-session.ts'
import { type MigrationPlan, migrate, planMigration } from '../../infra/postgres/migrate.ts'
import type { Rehearsal } from '../../infra/postgres/migration-file.ts'
import { clientOptions, readTemporal, type TemporalAddress } from '../../infra/temporal/connection.ts'
import { ensureNamespace } from '../../infra/temporal/namespace.ts'
import { callerPath, need } from '../settings.ts'
import { readEnvironment } from './environment.ts'
import { compileFlow } from './local-compiler.ts'

/** For all calls of a migration of Temporal. A new namespace takes some 10 s until all of its parts know it. */
const TEMPORAL_MS = 90_000

/**
 * Migrates DATABASE_URL, and Temporal if its address is set. TENON_APP_PASSWORD and TENON_BUILDER_PASSWORD are by default
 * derived from TENON_MASTER_KEY. @returns the exit code
 */
export async function migrateFromEnvironment(): Promise<number> {
  const settings = await withMasterKeys(readEnvironment(callerPath))
  const { TENON_APP_PASSWORD, TENON_BUILDER_PASSWORD, TENON_MASTER_KEY: masterKeys } = settings
  const derived = (purpose: string) => deriveSecret(need(settings, 'TENON_MASTER_KEY'), purpose)
  const secrets = {
    ...(masterKeys && { masterKeys }),
    app: TENON_APP_PASSWORD || derived(DERIVED.appPassword),
    builder: TENON_BUILDER_PASSWORD || derived(DERIVED.builderPassword),
  }
  // Settings that are refused leave the database as it was.
  const hasTemporal = settings['TEMPORAL_ADDRESS'] || settings['TEMPORAL_CONFIG_FILE']
  const temporal = hasTemporal ? readTemporal(settings) : undefined
  const { applied } = await migrate(need(settings, 'DATABASE_URL'), secrets)
  const made = [...applied, ...(temporal === undefined ? [] : await migrateTemporal(temporal))]
  process.stdout.write(made.length === 0 ? 'Up to date.\n' : `${made.join('\n')}\n`)
  return 0
}

/** Makes namespace and search attributes in Temporal. @returns what was made */
async function migrateTemporal(temporal: TemporalAddress): Promise<string[]> {
  const { address, namespace } = temporal
  const connection = await Connection.connect(clientOptions(temporal)).catch((cause: unknown) => {
    throw new Error(`Temporal does not answer at ${address} (TEMPORAL_ADDRESS). The database is migrated.`, {
      cause,
    })
  })
  try {
    return await connection.withDeadline(Date.now() + TEMPORAL_MS, () =>
      ensureNamespace(connection, namespace),
    )
  } finally {
    await connection.close()
  }
}

/** The findings of `tenon migrate --check`. */
interface Check extends MigrationPlan {
  /** Sentences about settings of this environment that the build refuses. */
  readonly settings: readonly string[]
  readonly flows: FlowsChecked
}

/**
 * Says what a migration to this build would do and what it would break, and changes nothing: the files are applied and taken back.
 * @returns the exit code: 1 if this build refuses a setting or a flow
 */
export async function checkMigration({ json }: { json?: true }): Promise<number> {
  const environment = await withMasterKeys(readEnvironment(callerPath))
  const settings = settingFaults(environment)
  const { TENON_MASTER_KEY: masterKeys } = environment
  const url = need(environment, 'DATABASE_URL')
  const { plan, flows } = await withAdminSession(url, 'tenon-migrate-check', async (client) => {
    const plan = await planMigration(client, masterKeys)
    return { plan, flows: plan.isNew ? { checked: 0, refused: [] } : await checkFlows(client) }
  })
  const check = { ...plan, settings, flows }
  process.stdout.write(json ? `${JSON.stringify(check)}\n` : `${linesOf(check).join('\n')}\n`)
  return settings.length + flows.refused.length > 0 ? 1 : 0
}

/** But for settings that are not given: a migration needs few of those of a process. */
function settingFaults(settings: NodeJS.ProcessEnv): readonly string[] {
  try {
    parseConfig(settings)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.filter((fault) => !/^\w+ is missing\b/.test(fault))
  }
}

function linesOf({ isNew, files, settings, flows }: Check): string[] {
  return [
    ...(isNew ? ['The database has no schema yet: `tenon migrate` makes it.'] : schemaLines(files)),
    ...(settings.length === 0
      ? ['Settings: this build accepts those of this environment.']
      : ['Settings that this build refuses:', ...settings.map((fault) => `  ${fault}`)]),
    ...flowLines(flows),
  ]
}

function schemaLines(files: MigrationPlan['files']): string[] {
  if (files.length === 0) return ['Schema: up to date.']
  return [
    `Schema: \`tenon migrate\` applies ${files.length === 1 ? 'a file' : `${files.length} files`}.`,
    ...files.map(
      (file) => `  ${file.name}: ${effectOf(file)}. Builds from ${file.serves_from} on serve afterwards.`,
    ),
  ]
}

/** The locks of the file, which stop requests, and their time. */
function effectOf({ locks, ms, beside_requests: isBeside }: Rehearsal): string {
  if (isBeside) return 'not rehearsed: it is no transaction, and lets requests go on however long it takes'
  if (locks === null)
    return `not rehearsed together with the files before it: locks for ${INFRA_LIMITS.migrationMs} ms at most`
  return `${ms} ms, locks ${locks.map(({ table, mode }) => `${table} (${mode})`).join(', ') || 'no table'}`
}

function flowLines({ checked, refused }: FlowsChecked): string[] {
  if (checked === null)
    return [
      'Flows: not checked, since the role of DATABASE_URL does not see the rows of all tenants. Use a superuser, or a role with BYPASSRLS.',
    ]
  if (refused.length === 0) return [`Flows: this build accepts all ${checked} published flows.`]
  return [
    `Flows: this build refuses ${refused.length} of ${checked} published flows. Their executions go on; a new version of them has to be changed:`,
    ...refused.map(
      ({ workspace_id: workspace, name, version, problem }) =>
        `  ${workspace} ${name} version ${version}: ${problem}`,
    ),
  ]
}

interface FlowsChecked {
  /** How many; null if the role of the database does not see those of all tenants. */
  readonly checked: number | null
  /** Their newest versions that this build refuses. */
  readonly refused: readonly RefusedFlow[]
}

interface RefusedFlow {
  readonly tenant_id: string
  readonly workspace_id: string
  readonly name: string
  readonly version: number
  /** The first sentence of the compiler. */
  readonly problem: string
}

interface Published extends Omit<RefusedFlow, 'problem'> {
  readonly id: string
  readonly source: string
}

/** Flows that are read at once. */
const PAGE = 200

async function checkFlows(client: Client): Promise<FlowsChecked> {
  const { rows } = await client.query<{ sees: boolean }>(
    'select rolsuper or rolbypassrls as sees from pg_roles where rolname = current_user',
  )
  if (rows[0]?.sees !== true) return { checked: null, refused: [] }
  let checked = 0
  const refused: RefusedFlow[] = []
  for (let page = await publishedAfter(client); page.length > 0; ) {
    checked += page.length
    for (const { id: _id, source, ...flow } of page) {
      const [first] = compileFlow(source).diagnostics
      if (first !== undefined) refused.push({ ...flow, problem: first.message })
    }
    page = page.length < PAGE ? [] : await publishedAfter(client, page.at(-1))
  }
  return { checked, refused }
}

async function publishedAfter(client: Client, last?: Published): Promise<Published[]> {
  const { rows } = await client.query<Published>(
    `select f.tenant_id, f.workspace_id, f.id, f.name, v.version, v.source
     from tenon.flows f join tenon.flow_versions v
       on (v.tenant_id, v.workspace_id, v.flow_id, v.version) = (f.tenant_id, f.workspace_id, f.id, f.latest_version)
     where f.deleted_at is null and v.deleted_at is null and (f.tenant_id, f.workspace_id, f.id) > ($1, $2, $3)
     order by f.tenant_id, f.workspace_id, f.id limit ${PAGE}`,
    [last?.tenant_id ?? '', last?.workspace_id ?? '', last?.id ?? ''],
  )
  return rows
}
