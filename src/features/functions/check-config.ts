/** Checks of a function's configuration that its schema cannot express. Deployment and configuration share them. */

import Type, { type Static } from 'typebox'
import { SECRET_NAME } from '../../../flows-dsl/components/use.ts'
import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { PAYLOADS_SCOPE, seesPayloads } from '../../access/payload-access.ts'
import type { AdminScope } from '../../access/scope.ts'
import { shortPointer } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { ADMINS, type Role } from '../../core/policy.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { boundedMs } from '../../core/units.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { SCOPES } from '../key-operations.ts'
import type { ConfigChange, FunctionConfig } from './config.ts'
import { egressFault } from './egress.ts'
import { FUNCTION_LIMITS } from './limits.ts'
import { type ConfigError, triggerErrors } from './triggers/function-triggers.ts'

export const ConfigWarnings = Type.Optional(
  Type.Array(Type.Object({ pointer: Type.String(), detail: Type.String() }), {
    description: 'Parts of the configuration that have no effect yet; absent if there are none.',
  }),
)
type ConfigWarnings = Static<typeof ConfigWarnings>

/** @param pointer of the configuration in the body @param target a condition on the function `f` that the change is for */
export interface ConfigPlace {
  readonly pointer: string
  readonly target: Sql
}

/** @throws Problem `validation_failed` with all errors */
export async function checkConfig(
  scope: AdminScope,
  change: ConfigChange,
  { pointer, target }: ConfigPlace,
): Promise<void> {
  const errors = memberErrors(change, pointer)
  rejectErrors([...errors, ...(await storedRetryErrors(scope, change, target))], pointer)
}

/** Checks a whole configuration, of a function that is not stored. @throws Problem `validation_failed` with all errors */
export function checkWholeConfig(config: FunctionConfig): void {
  rejectErrors([...memberErrors(config, ''), ...retryErrors(config)], '')
}

/**
 * Code with the scope for it sees payloads, so only who may see them decides which code that is.
 * @param change the configuration that comes with the code; undefined if that stays
 * @throws Problem `forbidden`
 */
export async function requireShareOfCode(
  scope: AdminScope,
  target: Sql,
  { scopes }: ConfigChange = {},
): Promise<void> {
  if (seesPayloads(scope.actor)) return
  const stored =
    scopes === undefined &&
    (await scope.row(
      sql`select f.id from functions f where ${target} and f.config -> 'scopes' ? ${PAYLOADS_SCOPE}`,
    ))
  if (scopes?.includes(PAYLOADS_SCOPE) !== true && !stored) return
  throw new Problem('forbidden', {
    detail: `The function has the scope ${PAYLOADS_SCOPE}, and you may not see payloads yourself: you decide neither on the scope nor on the code that has it.`,
  })
}

/** @throws Problem `forbidden` if anon keys or users are to invoke the function, and the caller is no admin */
export async function requireRightToOpen(
  scope: AdminScope,
  target: Sql,
  change: ConfigChange,
): Promise<void> {
  const opened = OPENING.filter((name) => change[name] === true)
  if (opened.length === 0 || (ADMINS as readonly Role[]).includes(scope.actor.role)) return
  const row = await scope.row<{ config: Partial<FunctionConfig> }>(
    sql`select f.config from functions f where ${target}`,
  )
  const widened = opened.filter((name) => row?.config[name] !== true)
  if (widened.length === 0) return
  throw new Problem('forbidden', {
    detail: `This lets anon keys or users invoke the function, which only admins decide: ${widened.join(', ')}.`,
    hint: 'Ask an admin of the workspace to set it, or leave it out.',
  })
}

const OPENING = ['anon', 'user'] as const

/** @throws Problem `validation_failed` for the timeout */
function memberErrors(change: ConfigChange, pointer: string): ConfigError[] {
  const { timeout } = change
  const field = { in: 'body', name: 'timeout', pointer: `${pointer}/timeout` } as const
  if (timeout !== undefined) boundedMs(field, timeout, { minMs: 1_000, maxMs: FUNCTION_LIMITS.timeoutMs.max })
  return [
    ...triggerErrors(change),
    ...listErrors('egress', change.egress, egressFault),
    ...Object.keys(change.env ?? {}).flatMap(envErrors),
    ...listErrors('secrets', change.secrets, secretFault),
    ...listErrors('scopes', change.scopes, scopeFault),
  ]
}

function rejectErrors(errors: readonly ConfigError[], pointer: string): void {
  if (errors.length === 0) return
  throw new Problem('validation_failed', {
    detail: errors.map(({ path, detail }) => `${path.slice(1).replaceAll('/', '.')}: ${detail}`).join('; '),
    errors: errors.slice(0, CORE_LIMITS.diagnosticsReturnedMax).map(
      ({ path, detail }): InputError => ({
        in: 'body',
        name: path.split('/')[1] ?? '',
        pointer: `${pointer}${path}`,
        detail,
      }),
    ),
  })
}

/** Secrets may be stored after the function was deployed, so a missing one is a warning. */
export async function missingSecrets(
  scope: AdminScope,
  { secrets = [] }: ConfigChange,
  { pointer, target }: ConfigPlace,
): Promise<{ readonly warnings?: ConfigWarnings }> {
  if (secrets.length === 0) return {}
  const rows = await scope.rows<{ name: string }>(sql`
    select s.name from functions f join flow_secrets s
      on s.tenant_id = f.tenant_id and s.workspace_id = f.workspace_id
    where ${target} and s.name = any(${textArray(secrets)}::text[])`)
  const there = new Set(rows.map(({ name }) => name))
  const warnings = secrets.flatMap((name, index) => {
    const detail = `The workspace has no secret \`${name}\`. Runs fail until it is stored.`
    return there.has(name) ? [] : [{ pointer: `${pointer}/secrets/${index}`, detail }]
  })
  return warnings.length === 0 ? {} : { warnings }
}

function listErrors(
  name: string,
  list: readonly string[] = [],
  faultOf: (one: string) => string | undefined,
): ConfigError[] {
  return list.flatMap((one, index) => {
    const detail = faultOf(one)
    return detail === undefined ? [] : [{ path: `/${name}/${index}`, detail }]
  })
}

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/

function envErrors(name: string): ConfigError[] {
  if (ENV_NAME.test(name)) return []
  const detail =
    'The name has other characters than letters, digits and `_`, more than 64, or begins with a digit.'
  return [{ path: `/env/${shortPointer(name)}`, detail }]
}

function secretFault(name: string): string | undefined {
  if (SECRET_NAME.test(name)) return undefined
  return 'It is no name of a secret: letters, digits, `_`, `.` and `-`, at most 63, with a letter or `_` first.'
}

function scopeFault(scope: string): string | undefined {
  if (SCOPES.includes(scope)) return undefined
  const near = nearest(scope, SCOPES)
  const hint = near === undefined ? `There are ${SCOPES.join(', ')}.` : `Did you mean ${near}?`
  return `There is no such scope of a service key. ${hint}`
}

async function storedRetryErrors(
  scope: AdminScope,
  { retries, idempotent }: ConfigChange,
  target: Sql,
): Promise<ConfigError[]> {
  if (!(retries !== undefined && retries > 0) && idempotent !== false) return []
  const row = await scope.row<{ config: Partial<FunctionConfig> }>(
    sql`select f.config from functions f where ${target}`,
  )
  return retryErrors({
    retries: retries ?? row?.config.retries ?? 0,
    idempotent: idempotent ?? row?.config.idempotent ?? false,
  })
}

function retryErrors({ retries, idempotent }: Pick<FunctionConfig, 'retries' | 'idempotent'>): ConfigError[] {
  if (retries === 0 || idempotent) return []
  return [{ path: '/retries', detail: 'Only a function that is `idempotent` is repeated.' }]
}
