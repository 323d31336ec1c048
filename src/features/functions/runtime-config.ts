/** Reads the code of a function and its configuration of now, for an attempt of a run. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { decryptSecret, type SecretValue } from '../flows/secrets.ts'
import { DEFAULTS, type FunctionConfig } from './config.ts'
import type { EntryPoint } from './sandbox/compile.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** A version as the activity that runs it needs it. */
export interface RunnableVersion {
  /** JavaScript. */
  readonly compiled: string
  readonly exports: readonly EntryPoint[]
  readonly input_schema: JsonSchema | null
  readonly output_schema: JsonSchema | null
  /** True if positions in the code are not those of the developer's files. */
  readonly has_maps: boolean
}

export interface RuntimeConfig extends Pick<FunctionConfig, 'env' | 'egress' | 'scopes'> {
  /** Names in `secrets` of the configuration. */
  readonly secretNames: readonly string[]
  /** Of the secrets that exist. */
  readonly secrets: ReadonlyMap<string, SecretValue>
}

interface Row {
  readonly version: RunnableVersion | null
  readonly config: Partial<FunctionConfig>
  /** Encrypted values in hexadecimal digits, by name. */
  readonly sealed: Readonly<Record<string, string>> | null
}

/**
 * Reads version, configuration and secrets in one statement.
 * @param scope of an admin, since data roles read no secrets
 * @param withVersion false if the caller has the version, which never changes
 * @throws Problem `not_found` if the function or its version was deleted
 */
export async function readRuntime(
  scope: WorkspaceScope,
  { id, version }: Pick<FunctionRunInput['function'], 'id' | 'version'>,
  withVersion: boolean,
): Promise<{ readonly runtime: RuntimeConfig; readonly version?: RunnableVersion }> {
  const { tenantId, workspaceId } = scope.ref
  // The role reads the whole tenant.
  const row = await scope.row<Row>(sql`
    select f.config,
      case when ${withVersion} then json_build_object('compiled', v.compiled, 'exports', v.exports, 'input_schema', v.input_schema,
        'output_schema', v.output_schema, 'has_maps', v.compiled_map is not null or v.source_map is not null)
      end as version,
      (select jsonb_object_agg(s.name, encode(s.sealed, 'hex')) from flow_secrets s
        where s.tenant_id = f.tenant_id and s.workspace_id = f.workspace_id
          and coalesce(f.config -> 'secrets', '[]'::jsonb) @> to_jsonb(s.name)) as sealed
    from functions f join function_versions v on v.tenant_id = f.tenant_id
      and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = ${version}
    where f.tenant_id = ${tenantId} and f.workspace_id = ${workspaceId} and f.id = ${id}`)
  if (row === undefined) throw notFound('function')
  const { env, egress, scopes, secrets: secretNames } = { ...DEFAULTS, ...row.config }
  const secrets = Object.entries(row.sealed ?? {}).map(
    ([name, hex]) => [name, decryptSecret(scope, name, hex)] as const,
  )
  const runtime = { env, egress, scopes, secretNames, secrets: new Map(secrets) }
  return { runtime, ...(row.version && { version: row.version }) }
}

/**
 * The values that the code gets as `context.secrets`.
 * @throws Problem `function_error` that names a secret which the workspace does not have
 */
export function secretValues(scope: WorkspaceScope, runtime: RuntimeConfig): Record<string, Json> {
  const missing = runtime.secretNames.find((name) => !runtime.secrets.has(name))
  if (missing === undefined) return Object.fromEntries(runtime.secrets) as Record<string, Json>
  const path = `PUT /v1/flows/workspaces/${scope.ref.workspaceId}/secrets/${missing}`
  const detail = `The workspace has no secret \`${missing}\`, which the configuration of the function names. Store it: ${path}.`
  throw new Problem('function_error', { detail })
}
