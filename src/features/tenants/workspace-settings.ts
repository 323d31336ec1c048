/** Settings of a workspace: experimental features, rights of anon keys and users, private addresses that its flows may reach. */

import Type, { type Static } from 'typebox'
import { checkOrigins, Origins } from '../../access/browser-origins.ts'
import {
  adminOperation,
  Id,
  IfMatch,
  Input,
  OptionalTime,
  Ref,
  Time,
} from '../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { cached, invalidate, invalidateState } from '../../access/scope-cache.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { matches } from '../../core/etag.ts'
import { ADMINS, DEVELOPERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { AuthInput, AuthSettings } from '../identity/users/auth-settings.ts'
import { authToShow, authToStore } from '../identity/users/workspace-auth.ts'
import { contentTag, findRow } from '../operation-helpers.ts'
import { checkPeriods, TenantRetention, WorkspaceRetention } from '../retention/retention-settings.ts'
import { checkPrefixes, checkUserRules } from './check-public-access.ts'
import {
  EffectiveSetting,
  effectiveSettings,
  SettingChange,
  settingChanges,
  storedSettings,
} from './effective-settings.ts'
import { checkSizes, IMAGE_DEFAULTS, ImageSettings, ImageSettingsInput } from './image-settings.ts'
import { OPERATORS_DEFAULTS, OPERATORS_INPUT, Operators, requireLift } from './operator-access.ts'
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
import { readSettings, type Settings, type StoredSettings, writeSettings } from './settings-store.ts'

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

export const Services = component(
  'WorkspaceSettings',
  Type.Object({
    workspace_id: Id('ws'),
    experimental: Experimental,
    egress: Type.Object({ allow: Allow }),
    anon: Anon,
    cors: Type.Object({ origins: Origins }),
    operators: Operators,
    auth: AuthSettings,
    objects: Type.Object({ public_read: PublicRead, user: UserObjects, images: ImageSettings }),
    topics: Type.Object({ user: UserTopics }),
    retention: WorkspaceRetention,
    retention_failure: Type.Optional(RetentionFailure),
    tenant: TenantSettings,
    effective: Type.Array(EffectiveSetting, {
      description: 'All settings one by one, each with the value in force and its source.',
    }),
    updated_at: OptionalTime,
    changes: Type.Optional(
      Type.Array(SettingChange, { description: 'Settings that the request changes, or would change.' }),
    ),
    dry_run: Type.Optional(Type.Boolean({ description: 'True if nothing was changed.' })),
    warnings: Type.Optional(
      Type.Array(Type.Object({ pointer: Type.String(), detail: Type.String() }), {
        description: 'Warnings about a change: data that it has made public.',
      }),
    ),
  }),
  {
    workspace_id: EXAMPLE_ID.workspace,
    experimental: [],
    egress: { allow: [] },
    anon: { collections: 'none', objects: 'none', events: 'workspace' },
    cors: { origins: ['https://tennis.example'] },
    operators: { data: 'allowed' },
    auth: exampleOf(AuthSettings),
    objects: {
      public_read: ['public/'],
      user: { read: [], write: [], delete: [] },
      images: exampleOf(ImageSettings),
    },
    topics: { user: { subscribe: ['lobby'], publish: [] } },
    retention: exampleOf(WorkspaceRetention),
    tenant: { retention: exampleOf(TenantRetention) },
    effective: [{ pointer: '/anon/collections', value: 'none', source: 'default' }],
    updated_at: EXAMPLE_TIME.updated,
  },
)
export type Services = Static<typeof Services>

const configureInput = Input({
  workspace_id: Ref('workspace'),
  experimental: Type.Optional(Experimental),
  egress: Type.Optional(Type.Object({ allow: Allow }, { additionalProperties: false })),
  anon: Type.Optional(AnonInput),
  cors: Type.Optional(Type.Object({ origins: Origins }, { additionalProperties: false })),
  operators: Type.Optional(OPERATORS_INPUT),
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
  dry_run: Type.Optional(
    Type.Boolean({
      description:
        'True if nothing is to be changed: the response has the changes that would be made. Default: `false`.',
    }),
  ),
  if_match: Type.Optional(IfMatch('settings')),
})

export const configureServices = adminOperation({
  name: 'service.configure',
  summary:
    'Configure a workspace: experimental features, access of anon keys and users, sign-up and retention; operators also allow addresses for its flows',
  roles: ADMINS,
  input: configureInput,
  output: Services,
  http: {
    method: 'POST',
    path: '/v1/services/configure',
    body: '*',
    headers: { if_match: 'if-match' },
    etag: tagOf,
  },
  auditDetail: ({ changes = [], dry_run }) =>
    dry_run === true
      ? { dry_run: 'true' }
      : Object.fromEntries(
          changes.map(({ pointer, before, after }) => [
            pointer,
            `${JSON.stringify(before)} → ${JSON.stringify(after)}`,
          ]),
        ),
  run: async (scope, { workspace_id, dry_run = false, if_match, ...request }) => {
    requireAllowed(scope, request)
    await checkValues(scope, workspace_id, request)
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const present = await readSettings(scope, workspace_id)
      const before = show(scope, present)
      requireLift(scope, present.stored.operators, request.operators)
      if (if_match !== undefined && !matches(if_match, tagOf(before), 'strong'))
        throw new Problem('precondition_failed')
      const changed = await changedColumns(scope, request, present)
      const stored = { ...present.stored, ...changed }
      const after = show(scope, { ...present, stored })
      const changes = [...settingChanges(before.effective, after.effective)]
      const warnings =
        request.anon?.collections === 'read'
          ? { warnings: [await openedCollections(scope, workspace_id)] }
          : {}
      if (dry_run) return { ...after, ...warnings, changes, dry_run }
      if (!(await writeSettings(scope, present, changed))) continue
      invalidate(scope, present.ref, PUBLIC_ACCESS_KEY)
      // Keys and states are cached with the origins, states also with the access of operators.
      if (request.cors !== undefined || request.operators !== undefined)
        invalidateState(scope, present.ref.tenantId)
      return { ...show(scope, await readSettings(scope, workspace_id)), ...warnings, changes }
    }
    throw new Problem('state_conflict', {
      detail: 'The settings are changed by others all the time. Send the request again.',
    })
  },
})

/** A change that others have overtaken is made again, to the settings that they left. */
const ATTEMPTS_MAX = 20

/** Identifies the settings as they are shown (RFC 9110 §8.8.3). */
function tagOf({ effective, updated_at }: Pick<Services, 'effective' | 'updated_at'>): string {
  return contentTag([effective, updated_at])
}

type Request = Omit<Static<typeof configureInput>, 'workspace_id' | 'dry_run' | 'if_match'>

/** @throws Problem `forbidden` */
function requireAllowed(scope: AdminScope, { egress, tenant }: Request): void {
  if (egress !== undefined && scope.actor.role !== 'operator')
    throw new Problem('forbidden', { detail: 'Only operators can change egress.allow.' })
  if (tenant !== undefined && scope.actor.role === 'workspace_admin')
    throw new Problem('forbidden', {
      detail: 'Only admins of the tenant, and operators, can change `tenant`.',
    })
}

/** @throws Problem `validation_failed`, with what no schema can say */
async function checkValues(scope: AdminScope, workspaceId: string, request: Request): Promise<void> {
  const { cors, objects, topics, retention, tenant } = request
  if (cors !== undefined) checkOrigins(cors.origins)
  if (objects?.public_read !== undefined) checkPrefixes(objects.public_read)
  checkUserRules(objects?.user, topics?.user)
  if (objects?.images !== undefined) checkSizes(objects.images)
  if (retention !== undefined) await checkRetention(scope, workspaceId, retention)
  if (tenant !== undefined) checkPeriods('tenant.retention', tenant.retention)
}

/** The new values of the columns that a request changes. Members of some settings that it does not name stay. */
async function changedColumns(
  scope: AdminScope,
  { experimental, egress, anon, cors, operators, auth, objects, topics, retention, tenant }: Request,
  { ref, stored }: Settings,
): Promise<Partial<StoredSettings>> {
  const present = async () => ({
    ...{ ref, auth: stored.auth, egressAllowed: egress?.allow ?? stored.egress_allow },
  })
  const { user, images, public_read } = objects ?? {}
  return {
    ...(experimental !== undefined && { experimental }),
    ...(egress !== undefined && { egress_allow: egress.allow }),
    ...(anon !== undefined && { anon: { ...stored.anon, ...anon } }),
    ...(public_read !== undefined && { public_read }),
    ...(user !== undefined && { user_objects: { ...stored.user_objects, ...user } }),
    ...(images !== undefined && { image_settings: { ...stored.image_settings, ...images } }),
    ...(topics?.user !== undefined && { user_topics: { ...stored.user_topics, ...topics.user } }),
    ...(cors !== undefined && { cors_origins: cors.origins }),
    ...(operators !== undefined && { operators: { ...stored.operators, ...operators } }),
    ...(auth !== undefined && { auth: { ...stored.auth, ...(await authToStore(scope, auth, present)) } }),
    ...(retention !== undefined && { retention }),
    ...(tenant !== undefined && { tenant_retention: tenant.retention }),
  }
}

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

export const getServices = adminOperation({
  name: 'service.get',
  summary: 'Read the settings of a workspace',
  roles: DEVELOPERS,
  input: Input({ workspace_id: Ref('workspace') }),
  output: Services,
  http: { method: 'GET', path: '/v1/services', etag: tagOf },
  run: async (scope, { workspace_id }) => show(scope, await readSettings(scope, workspace_id)),
})

function show(
  scope: AdminScope,
  { ref, stored, updated_at, retention_failure: failure }: Settings,
): Services {
  const settings = {
    experimental: stored.experimental as Feature[],
    egress: { allow: stored.egress_allow },
    anon: { ...ANON_DEFAULTS, ...stored.anon },
    cors: { origins: stored.cors_origins },
    operators: { ...OPERATORS_DEFAULTS, ...stored.operators },
    auth: authToShow(scope, ref, stored.auth),
    objects: {
      public_read: stored.public_read,
      user: { ...NO_OBJECTS, ...stored.user_objects },
      images: { ...IMAGE_DEFAULTS, ...stored.image_settings },
    },
    topics: { user: { ...NO_TOPICS, ...stored.user_topics } },
    retention: stored.retention,
    tenant: { retention: stored.tenant_retention },
  }
  const isSet = storedSettings({
    ...{
      ...settings,
      anon: stored.anon,
      auth: stored.auth,
      operators: stored.operators,
      topics: { user: stored.user_topics },
    },
    objects: { ...settings.objects, user: stored.user_objects, images: stored.image_settings },
  })
  return {
    workspace_id: ref.workspaceId,
    ...settings,
    ...(failure !== null && { retention_failure: failure }),
    effective: [...effectiveSettings(settings, isSet)],
    updated_at,
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
