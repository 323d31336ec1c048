/** Reads and stores the settings of a workspace for archives. What the installation does not take is left out, and told. Reads its host names. */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { isObject } from '../../core/json.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { setSignInPolicy } from '../identity/sign-in-policy.ts'
import { allRows, findRow } from '../operation-helpers.ts'
import { checkPeriods, TenantRetention } from '../retention/retention-settings.ts'
import { TENANT_LIMITS } from './limits.ts'
import { readSettings } from './settings-store.ts'
import { configureServices } from './workspace-settings.ts'

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
  const { stored } = await readSettings(scope, scope.ref.workspaceId)
  const { providers = [], ...auth } = stored.auth
  const { archive, ...retention } = stored.retention
  const settings = {
    experimental: stored.experimental,
    anon: stored.anon,
    cors: { origins: stored.cors_origins },
    operators: stored.operators,
    auth,
    objects: { public_read: stored.public_read, user: stored.user_objects, images: stored.image_settings },
    topics: { user: stored.user_topics },
    retention,
  }
  const missing = [
    ...providers.map(({ id }) => `identity provider ${id}: its client secret and its new redirect URI`),
    ...stored.egress_allow.map((address) => `egress.allow ${address}: an operator sets it`),
    ...(archive === undefined ? [] : ['retention.archive: the bucket for the archive of executions']),
  ]
  return { settings, missing }
}

/** Arguments of the operation that are no settings of a workspace, or that no archive may set. */
const NOT_MOVING = ['workspace_id', 'egress', 'tenant', 'dry_run', 'if_match']

type Tree = Readonly<Record<string, unknown>>
type Path = readonly string[]

/**
 * Stores settings of an archive by the operation of requests, which checks all of them. One that it refuses is left out, so that the
 * workspace has the default: an installation may have other limits, or not know the setting.
 * @returns the settings that were left out, with the reasons
 * @throws Problem `validation_failed` for what is no setting of a workspace, and for too many that are refused
 */
export async function restoreSettings(
  admin: AdminScope,
  { workspaceId }: WorkspaceRef,
  settings: Tree,
): Promise<string[]> {
  const wrong = NOT_MOVING.find((name) => Object.hasOwn(settings, name))
  if (wrong !== undefined)
    throw new Problem('validation_failed', { detail: `${wrong} does not move with a workspace.` })
  const configure = (tree: Tree, dry_run: boolean) =>
    configureServices.run(admin, configureServices.parse({ ...tree, workspace_id: workspaceId, dry_run }))
  const chooser = new SettingsChooser((tree) => configure(tree, true))
  const taken = (await chooser.choose({}, [], settings)) as Tree
  if (Object.keys(taken).length > 0) await configure(taken, false)
  return chooser.refused
}

const TenantSettings = Type.Object(
  { retention: TenantRetention, require_mfa: Type.Boolean() },
  { additionalProperties: false },
)
const isTenantSettings = Compile(Type.Partial(TenantSettings))

/** The settings of a tenant for all of its workspaces. @param tenant scope with the rights of its admin */
export const tenantSettingsToMove = (tenant: AdminScope) =>
  findRow<Static<typeof TenantSettings>>(
    tenant,
    'tenant',
    sql`select t.retention, coalesce(p.require_mfa, false) as require_mfa
      from tenants t left join sign_in_policies p on p.tenant_id = t.id`,
  )

/** As {@link restoreSettings}, for those of a tenant. */
export async function restoreTenantSettings(
  admin: AdminScope,
  tenantId: TenantId,
  settings: Tree,
): Promise<string[]> {
  const chooser = new SettingsChooser(async (tree) => {
    const [fault] = isTenantSettings.Errors(tree)
    if (fault !== undefined)
      throw new Problem('validation_failed', { detail: `${fault.instancePath} ${fault.message}` })
    checkPeriods('retention', (tree as Partial<Static<typeof TenantSettings>>).retention ?? {})
  })
  const taken = (await chooser.choose({}, [], settings)) as Partial<Static<typeof TenantSettings>>
  if (taken.retention !== undefined)
    await admin.batch(sql`update tenants set retention = ${taken.retention}::jsonb where id = ${tenantId}`)
  if (taken.require_mfa === true)
    await setSignInPolicy.run(admin, setSignInPolicy.parse({ tenant_id: tenantId, require_mfa: true }))
  return chooser.refused
}

/** Chooses the settings that are taken: all together, or else each member by itself. */
class SettingsChooser {
  readonly refused: string[] = []
  readonly #check: (tree: Tree) => Promise<unknown>
  #checks = 0

  constructor(check: (tree: Tree) => Promise<unknown>) {
    this.#check = check
  }

  /** @returns the tree with as much of the value at the path as is taken */
  async choose(tree: unknown, path: Path, value: unknown): Promise<unknown> {
    const whole = withValue(tree, path, value)
    const reason = await this.#findRefusal(whole as Tree)
    if (reason === undefined) return whole
    const members = isObject(value) ? Object.entries(value) : []
    if (members.length > 0) {
      let chosen = tree
      for (const [name, member] of members) chosen = await this.choose(chosen, [...path, name], member)
      return chosen
    }
    if (Array.isArray(value) && value.length > 0) return this.#chooseItems(tree, path, value)
    this.#refuse(path.join('.'), reason)
    return tree
  }

  async #chooseItems(tree: unknown, path: Path, items: readonly unknown[]): Promise<unknown> {
    let [chosen, taken] = [tree, [] as unknown[]]
    for (const item of items) {
      const more = withValue(tree, path, [...taken, item])
      const reason = await this.#findRefusal(more as Tree)
      if (reason === undefined) [chosen, taken] = [more, [...taken, item]]
      else this.#refuse(`${path.join('.')} ${JSON.stringify(item).slice(0, 200)}`, reason)
    }
    return chosen
  }

  /** The reason names its field first, as in the answer to a request. */
  #refuse(what: string, reason: string): void {
    const text = reason.startsWith(`${what}: `) ? reason : `${what}: ${reason}`
    this.refused.push(`setting ${text}`)
  }

  /** @throws what is no refusal; Problem `validation_failed` after too many */
  async #findRefusal(tree: Tree): Promise<string | undefined> {
    this.#checks += 1
    if (this.#checks > TENANT_LIMITS.movedSettingsChecksMax)
      throw new Problem('validation_failed', { detail: 'Too many of the settings are refused here.' })
    try {
      await this.#check(tree)
      return undefined
    } catch (error) {
      if (error instanceof Problem && error.isFinal) return error.message
      throw error
    }
  }
}

function withValue(tree: unknown, [name, ...rest]: Path, value: unknown): unknown {
  if (name === undefined) return value
  const members = isObject(tree) ? tree : {}
  return { ...members, [name]: withValue(members[name], rest, value) }
}

const PAGE = 200

/** The host names of a workspace, for archives. @param structure scope with the rights of an admin */
export const hostNames = (structure: WorkspaceScope): AsyncGenerator<{ readonly host: string }> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<{ host: string }>(sql`
        select host from hosts where workspace_id = ${structure.ref.workspaceId} and host > ${after}
        order by host limit ${PAGE}`),
    ({ host }) => host,
  )
