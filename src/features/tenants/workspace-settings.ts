/** Settings of a workspace: experimental features, rights of anon keys and users, private addresses that its flows may reach. */

import Type, { type Static } from 'typebox'
import { checkOrigins, ORIGINS_COLUMN, Origins } from '../../access/browser-origins.ts'
import { adminOperation, Id, Input, OptionalTime, Ref, Time } from '../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { cached, invalidate, invalidateState } from '../../access/scope-cache.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import type { Statements } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { AuthInput, AuthSettings, type StoredAuth } from '../identity/users/auth-settings.ts'
import { authToShow, authToStore } from '../identity/users/workspace-auth.ts'
import { findRow } from '../operation-helpers.ts'
import { checkPeriods, TenantRetention, WorkspaceRetention } from '../retention/retention-settings.ts'
import { checkPrefixes, checkUserRules } from './check-public-access.ts'
import { checkSizes, IMAGE_DEFAULTS, ImageSettings, ImageSettingsInput } from './image-settings.ts'
import {
  ANON_DEFAULTS,
  Anon,
  AnonInput,
  NO_OBJECTS,
  NO_TOPICS,
  PUBLIC_ACCESS_KEY,
  PublicRead,
  UserObjects,
  UserObjectsInput,
  UserTopics,
  UserTopicsInput,
} from './public-access.ts'

/** Experimental features, each off until a workspace names it. */
const Feature = Type.Union([Type.Literal('mcp.flow_tools'), Type.Literal('mcp.images')])
export type Feature = Static<typeof Feature>

const Experimental = Type.Array(Feature, {
  uniqueItems: true,
  description: 'Experimental features that are enabled.',
})
const Allow = Type.Array(
  Type.String({
    maxLength: 260,
    pattern: '^[^\\s,:/@]+:[0-9]{1,5}$',
    description: 'Destination as `host:port`, allowed whatever its IP address.',
  }),
  { maxItems: 100, uniqueItems: true },
)

const RetentionFailure = Type.Object(
  { at: Time, detail: Type.String() },
  { description: 'Reason why the last removal ended early; absent if it did not.' },
)

const TenantSettings = Type.Object(
  { retention: TenantRetention },
  {
    additionalProperties: false,
    description: 'Settings of the tenant of the workspace, for all of its workspaces.',
  },
)

export const Services = Type.Object({
  workspace_id: Id('ws'),
  experimental: Experimental,
  egress: Type.Object({ allow: Allow }),
  anon: Anon,
  cors: Type.Object({ origins: Origins }),
  auth: AuthSettings,
  objects: Type.Object({ public_read: PublicRead, user: UserObjects, images: ImageSettings }),
  topics: Type.Object({ user: UserTopics }),
  retention: WorkspaceRetention,
  retention_failure: Type.Optional(RetentionFailure),
  tenant: TenantSettings,
  updated_at: OptionalTime,
  warnings: Type.Optional(
    Type.Array(Type.Object({ pointer: Type.String(), detail: Type.String() }), {
      description: 'Warnings about a change: data that it has made public.',
    }),
  ),
})
export type Services = Static<typeof Services>

export const configureServices = adminOperation({
  name: 'service.configure',
  summary:
    'Configure a workspace: experimental features, access of anon keys and users, sign-up and retention; operators also allow addresses for its flows',
  roles: ADMINS,
  input: Input({
    workspace_id: Ref('workspace'),
    experimental: Type.Optional(Experimental),
    egress: Type.Optional(Type.Object({ allow: Allow }, { additionalProperties: false })),
    anon: Type.Optional(AnonInput),
    cors: Type.Optional(Type.Object({ origins: Origins }, { additionalProperties: false })),
    auth: Type.Optional(AuthInput),
    objects: Type.Optional(
      Type.Partial(
        Type.Object({ public_read: PublicRead, user: UserObjectsInput, images: ImageSettingsInput }),
        { additionalProperties: false },
      ),
    ),
    topics: Type.Optional(
      Type.Partial(Type.Object({ user: UserTopicsInput }), { additionalProperties: false }),
    ),
    retention: Type.Optional(WorkspaceRetention),
    tenant: Type.Optional(TenantSettings),
  }),
  output: Services,
  http: { method: 'POST', path: '/v1/services/configure', body: '*' },
  run: async (
    scope,
    { workspace_id, experimental, egress, anon, cors, auth, objects, topics, retention, tenant },
  ) => {
    if (egress !== undefined && scope.actor.role !== 'operator') {
      throw new Problem('forbidden', { detail: 'Only operators can change egress.allow.' })
    }
    if (tenant !== undefined && scope.actor.role === 'workspace_admin') {
      throw new Problem('forbidden', {
        detail: 'Only admins of the tenant, and operators, can change `tenant`.',
      })
    }
    if (cors !== undefined) checkOrigins(cors.origins)
    const readPresent = async () => {
      const { ref, row } = await readRow(scope, workspace_id)
      return { ref, auth: row.auth, egressAllowed: egress?.allow ?? row.allow }
    }
    const storedAuth = auth && (await authToStore(scope, auth, readPresent))
    if (objects?.public_read !== undefined) checkPrefixes(objects.public_read)
    checkUserRules(objects?.user, topics?.user)
    if (objects?.images !== undefined) checkSizes(objects.images)
    if (retention !== undefined) await checkRetention(scope, workspace_id, retention)
    if (tenant !== undefined) checkPeriods('tenant.retention', tenant.retention)
    const settings = [
      [sql`experimental`, experimental],
      [sql`egress_allow`, egress?.allow],
      [sql`anon`, anon, sql`services.anon || excluded.anon`],
      [sql`public_read`, objects?.public_read],
      [sql`user_objects`, objects?.user, sql`services.user_objects || excluded.user_objects`],
      [sql`image_settings`, objects?.images, sql`services.image_settings || excluded.image_settings`],
      [sql`user_topics`, topics?.user, sql`services.user_topics || excluded.user_topics`],
      [sql`cors_origins`, cors?.origins],
      [sql`auth`, storedAuth, sql`services.auth || excluded.auth`],
      [sql`retention`, retention],
    ] as const
    const writes = settings.flatMap(([column, value, merged]) =>
      value === undefined ? [] : [setting(workspace_id, column, value, merged)],
    )
    await scope.batch(
      ...writes,
      ...(tenant === undefined ? [] : [tenantRetention(workspace_id, tenant.retention)]),
      ...(retention === undefined && tenant === undefined ? [] : [retentionDue(workspace_id)]),
    )
    const { ref, services } = await readServices(scope, workspace_id)
    invalidate(scope, ref, PUBLIC_ACCESS_KEY)
    // Keys and states are cached with the origins.
    if (cors !== undefined) invalidateState(scope, ref.tenantId)
    if (anon?.collections !== 'read') return services
    return { ...services, warnings: [await openedCollections(scope, workspace_id)] }
  },
})

/** Names in a warning; more are counted. */
const NAMES_MAX = 10

/** The warning about what `anon.collections: "read"` makes public. */
async function openedCollections(scope: AdminScope, workspaceId: string) {
  const rows = await scope.rows<{ collection: string }>(sql`
    select collection from schemas where workspace_id = ${workspaceId} and access = '{}' order by collection`)
  const names = rows.slice(0, NAMES_MAX).map(({ collection }) => collection)
  const more = rows.length > NAMES_MAX ? ` and ${rows.length - NAMES_MAX} more` : ''
  const declared = names.length === 0 ? 'now none' : `now ${names.join(', ')}${more}`
  return {
    pointer: '/anon/collections',
    detail: `Every anon key of the workspace can read all documents of undeclared collections, and of collections declared without \`access\`: ${declared}. A collection declared with \`access\` allows only what its rules name.`,
  }
}

/** @throws Problem `validation_failed` if the period is out of bounds, or the bucket is not that of the workspace */
async function checkRetention(
  scope: AdminScope,
  workspaceId: string,
  retention: WorkspaceRetention,
): Promise<void> {
  checkPeriods('retention', retention)
  const { archive } = retention
  if (archive === undefined) return
  const workspace = sql`select bucket from workspaces where id = ${workspaceId}`
  const { bucket } = await findRow<{ bucket: string | null }>(scope, 'workspace', workspace)
  if (bucket === archive.bucket) return
  const own = bucket === null ? 'The workspace has no bucket' : `The bucket of the workspace is ${bucket}`
  throw new Problem('validation_failed', { detail: `${own}: it cannot archive to ${archive.bucket}.` })
}

/** @param merged the new value of an existing row */
const setting = (
  workspaceId: string,
  column: Sql,
  value: object,
  merged = sql`excluded.${column}`,
): Sql => sql`
  insert into services (tenant_id, workspace_id, ${column})
  select tenant_id, id, ${JSON.stringify(value)}::jsonb from workspaces where id = ${workspaceId}
  on conflict (tenant_id, workspace_id) do update set ${column} = ${merged}, updated_at = now()`

const tenantRetention = (workspaceId: string, retention: TenantRetention): Sql => sql`
  update tenants set retention = ${JSON.stringify(retention)}::jsonb, updated_at = now()
  where id = (select tenant_id from workspaces where id = ${workspaceId})`

/** A changed period counts at once, not at the next look; that of a hash chain within an hour. */
const retentionDue = (workspaceId: string): Sql =>
  sql`update workspaces set retention_due_at = now() where id = ${workspaceId}`

export const getServices = adminOperation({
  name: 'service.get',
  summary: 'Read the settings of a workspace',
  roles: ADMINS,
  input: Input({ workspace_id: Ref('workspace') }),
  output: Services,
  http: { method: 'GET', path: '/v1/services' },
  run: async (scope, { workspace_id }) => (await readServices(scope, workspace_id)).services,
})

/** Settings that move with a workspace, and what somebody has to set by hand where it is then. */
export interface MovedSettings {
  /** For `service.configure`, without `workspace_id`. */
  readonly settings: Readonly<Record<string, unknown>>
  readonly missing: readonly string[]
}

/**
 * The settings of a workspace without what cannot move: addresses that operators allow, identity providers, whose secrets stay
 * here and whose redirect URIs change, and the archive of executions, which names a bucket.
 */
export async function settingsToMove(scope: WorkspaceScope): Promise<MovedSettings> {
  const { row } = await readRow(scope, scope.ref.workspaceId)
  const { providers = [], ...auth } = row.auth
  const { archive, ...retention } = row.retention
  const settings = {
    experimental: row.experimental,
    anon: row.anon,
    cors: { origins: row.origins },
    auth,
    objects: { public_read: row.public_read, user: row.user_objects, images: row.image_settings },
    topics: { user: row.user_topics },
    retention,
  }
  const missing = [
    ...providers.map(({ id }) => `identity provider ${id}: its client secret and its new redirect URI`),
    ...row.allow.map((address) => `egress.allow ${address}: an operator sets it`),
    ...(archive === undefined ? [] : ['retention.archive: the bucket for the archive of executions']),
  ]
  return { settings, missing }
}

interface Row {
  readonly tenant_id: string
  readonly experimental: Feature[]
  readonly allow: string[]
  readonly anon: Partial<Anon>
  readonly public_read: string[]
  readonly user_objects: Partial<UserObjects>
  readonly user_topics: Partial<UserTopics>
  readonly image_settings: Partial<ImageSettings>
  readonly origins: string[]
  readonly auth: Partial<StoredAuth>
  readonly retention: WorkspaceRetention
  readonly tenant_retention: TenantRetention
  readonly retention_failure: Static<typeof RetentionFailure> | null
  readonly updated_at: string | null
}

async function readRow(scope: Statements, workspaceId: string): Promise<{ ref: WorkspaceRef; row: Row }> {
  const statement = sql`
    select w.tenant_id, coalesce(s.experimental, '[]') as experimental, coalesce(s.egress_allow, '[]') as allow,
      coalesce(s.anon, '{}') as anon, coalesce(s.public_read, '[]') as public_read,
      ${ORIGINS_COLUMN}, coalesce(s.auth, '{}') as auth,
      coalesce(s.user_objects, '{}') as user_objects, coalesce(s.user_topics, '{}') as user_topics,
      coalesce(s.image_settings, '{}') as image_settings,
      coalesce(s.retention, '{}') as retention, t.retention as tenant_retention, s.retention_failure, s.updated_at
    from workspaces w join tenants t on t.id = w.tenant_id left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id
    where w.id = ${workspaceId}`
  const row = await findRow<Row>(scope, 'workspace', statement)
  return { ref: { tenantId: row.tenant_id as TenantId, workspaceId: workspaceId as WorkspaceId }, row }
}

async function readServices(
  scope: AdminScope,
  workspaceId: string,
): Promise<{ ref: WorkspaceRef; services: Services }> {
  const { ref, row } = await readRow(scope, workspaceId)
  const { experimental, retention, retention_failure: failure, updated_at } = row
  return {
    ref,
    services: {
      workspace_id: workspaceId,
      experimental,
      egress: { allow: row.allow },
      anon: { ...ANON_DEFAULTS, ...row.anon },
      cors: { origins: row.origins },
      auth: authToShow(scope, ref, row.auth),
      objects: {
        public_read: row.public_read,
        user: { ...NO_OBJECTS, ...row.user_objects },
        images: { ...IMAGE_DEFAULTS, ...row.image_settings },
      },
      topics: { user: { ...NO_TOPICS, ...row.user_topics } },
      retention,
      ...(failure !== null && { retention_failure: failure }),
      tenant: { retention: row.tenant_retention },
      updated_at,
    },
  }
}

/** The non-public addresses that a workspace's flows may reach, cached for a few seconds. The scope is an admin's. */
export function egressAllowed(scope: WorkspaceScope): Promise<readonly string[]> {
  return cached(scope, 'egress', async () => {
    const value = await egressAllowedNow(scope)
    return { value, bytes: value.join().length }
  })
}

/** The same without the cache. */
export async function egressAllowedNow(scope: WorkspaceScope): Promise<readonly string[]> {
  const row = await scope.row<{ allow: string[] }>(sql`select egress_allow as allow from services`)
  return row?.allow ?? []
}

/** True if the workspace has switched it on. The scope is an admin's. */
export async function hasFeature(scope: WorkspaceScope, feature: Feature): Promise<boolean> {
  const row = await scope.row<{ on: boolean }>(
    sql`select experimental @> ${JSON.stringify([feature])}::jsonb as on from services`,
  )
  return row?.on === true
}

/** @throws Problem `feature_not_enabled`, with the request that enables it */
export async function requireFeature(scope: WorkspaceScope, feature: Feature): Promise<void> {
  if (await hasFeature(scope, feature)) return
  const body = JSON.stringify({ workspace_id: scope.ref.workspaceId, experimental: [feature] })
  throw new Problem('feature_not_enabled', {
    detail: `${feature} is experimental and not enabled in this workspace.`,
    adminHint: `POST /v1/services/configure ${body}`,
  })
}
