/** Secrets of flows and functions: stores, lists and deletes them, encrypts their values, and derives the handles that stand for them. */

import Type, { type Static } from 'typebox'
import { SECRET_NAME } from '../../../flows-dsl/components/use.ts'
import { Input, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type Derive, decryptFor, encryptFor } from '../../access/scope-services.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { escapePointer, exceedsDepth, isStorable } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, DEVELOPERS } from '../../core/policy.ts'
import { type InputError, notFound, Problem } from '../../core/problem.ts'
import { isSecretName } from '../../core/redact.ts'
import { handleOf } from '../../core/secret-handle.ts'
import type { Json, SecretNames } from '../../core/work.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { listPage, previewOperation } from '../operation-helpers.ts'
import { FLOWS, Ws } from './definitions.ts'
import { FLOW_LIMITS } from './limits.ts'

export const SecretName = Type.String({
  pattern: SECRET_NAME.source,
  description: 'Name of the secret, as flows declare it in `use.secrets`, and functions in `secrets`.',
})

const FlowSecret = component(
  'FlowSecret',
  Type.Object(
    {
      name: Type.String(),
      updated_by: Type.String(),
      created_at: Time,
      updated_at: Time,
    },
    { description: 'Secret without its value.' },
  ),
  {
    name: 'payment_key',
    updated_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type FlowSecret = Static<typeof FlowSecret>

const COLUMNS = sql`name collate "C" as name, updated_by, created_at, updated_at`

export const setFlowSecret = previewOperation({
  name: 'flow_secret.set',
  roles: ADMINS,
  summary: 'Store or replace a secret for flows and functions; later calls and runs use the new value',
  input: Input({
    ws: Ws,
    name: SecretName,
    value: Type.Unknown({
      description: `Value of the secret: a string of at least ${FLOW_LIMITS.secretCharsMin} characters, or an object or list of strings.`,
    }),
  }),
  output: FlowSecret,
  http: { method: 'PUT', path: `${FLOWS}/secrets/{name}`, body: '*' },
  run: async (scope, { name, value }) => {
    const row = await scope.row<FlowSecret>(sql`
      insert into flow_secrets (name, sealed, updated_by)
      select ${name}, ${encryptSecret(scope, name, value)}::bytea, ${scope.actor.subject}
      where exists (select from flow_secrets where name = ${name})
        or (select count(*) from flow_secrets) < ${FLOW_LIMITS.secretsMax}
      on conflict (tenant_id, workspace_id, name) do update
        set sealed = excluded.sealed, updated_by = excluded.updated_by, updated_at = now()
      returning ${COLUMNS}`)
    if (row !== undefined) return row
    const detail = `A workspace has at most ${FLOW_LIMITS.secretsMax} secrets.`
    throw new Problem('state_conflict', { detail })
  },
})

export const listFlowSecrets = previewOperation({
  name: 'flow_secret.list',
  roles: DEVELOPERS,
  summary: 'List the secrets of flows and functions by name, without values',
  input: Input({ ...PageInput, ws: Ws }),
  output: PageOf(FlowSecret),
  http: { method: 'GET', path: `${FLOWS}/secrets` },
  run: (scope, input) => listPage<FlowSecret>(scope, input, sql`select ${COLUMNS} from flow_secrets`, 'name'),
})

export const deleteFlowSecret = previewOperation({
  name: 'flow_secret.delete',
  roles: ADMINS,
  summary: 'Delete a secret; the response names the functions and the flows (latest version) that use it',
  input: Input({ ws: Ws, name: SecretName }),
  output: component(
    'DeletedFlowSecret',
    Type.Object({
      name: Type.String(),
      deleted: Type.Literal(true),
      used_by: Type.Array(Type.String(), {
        description:
          'Names of the flows whose calls with the secret now fail, and of the functions whose runs now fail.',
      }),
    }),
    { name: 'payment_key', deleted: true, used_by: ['confirm'] },
  ),
  http: { method: 'DELETE', path: `${FLOWS}/secrets/{name}` },
  run: async (scope, { name }) => {
    const [users = [], [gone] = []] = await scope.batch(
      sql`select name from (
        select f.name from flows f join flow_versions v
          on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.flow_id = f.id
            and v.version = f.latest_version
        where ${name} = any(v.secrets) and f.deleted_at is null
        union select f.name from functions f where f.workspace_id = tenon.workspace() and f.config -> 'secrets' @> to_jsonb(${name}::text)
      ) as users order by name limit ${CORE_LIMITS.pageItemsMax}`,
      sql`delete from flow_secrets where name = ${name} returning name`,
    )
    if (gone === undefined) throw notFound('secret')
    return { name, deleted: true as const, used_by: users.map((row) => String(row['name'])) }
  },
})

export type SecretValue = string | readonly SecretValue[] | { readonly [name: string]: SecretValue }

/** A string within a secret, with its pointer (RFC 6901) and the name of its closest member. */
interface Leaf {
  readonly pointer: string
  readonly name: string | undefined
  readonly text: unknown
}

export const secretPurpose = (name: string) => `flow-secret:${name}`

/**
 * Encrypts a value for its name.
 * @throws Problem `validation_failed` for an invalid secret: see {@link faultOf}
 */
function encryptSecret(scope: WorkspaceScope, name: string, value: unknown): Buffer {
  const errors = secretErrors(value)
  if (errors.length > 0) {
    throw new Problem('validation_failed', { detail: 'The value is not a valid secret.', errors })
  }
  return encryptFor(scope, secretPurpose(name), Buffer.from(JSON.stringify(value)))
}

/** @throws Error if it was encrypted for another name or workspace */
export function decryptSecret(scope: WorkspaceScope, name: string, hex: string): SecretValue {
  return JSON.parse(decryptFor(scope, secretPurpose(name), Buffer.from(hex, 'hex')).toString())
}

/** The current values of the execution's secrets; deleted secrets are left out. */
export async function readSecretValues(
  scope: WorkspaceScope,
  names: readonly string[],
): Promise<ReadonlyMap<string, SecretValue>> {
  const rows = await scope.rows<{ name: string; hex: string }>(sql`
    select name, encode(sealed, 'hex') as hex from flow_secrets where name = any(${textArray(names)}::text[])`)
  return new Map(rows.map(({ name, hex }) => [name, decryptSecret(scope, name, hex)]))
}

/**
 * The value of a secret in `$secrets`: a handle per string, in the same structure; one handle if the secret is missing.
 * @param derive of its workspace
 */
export function handlesFor(derive: Derive, workflowId: string, name: string, value: SecretValue = ''): Json {
  return mapped(value, '', (pointer) => handleAt(derive, workflowId, name, pointer))
}

/** All strings of the execution's secrets, by handle. @param derive of its workspace */
export function textsByHandle(
  derive: Derive,
  { workflow_id }: SecretNames,
  values: ReadonlyMap<string, SecretValue>,
): ReadonlyMap<string, string> {
  const texts = new Map<string, string>()
  for (const [name, value] of values) {
    for (const { pointer, text } of leavesOf(value)) {
      texts.set(handleAt(derive, workflow_id, name, pointer), String(text))
    }
  }
  return texts
}

/**
 * Derived from a secret of the workspace, so that activities compute it instead of trusting their arguments; and from the execution,
 * so that it reveals nothing about handles of others. An execution that waits for months still has its handles.
 */
function handleAt(derive: Derive, workflowId: string, name: string, pointer: string): string {
  return handleOf(name, derive(`flow-secret-handle:${workflowId}:${name}:${pointer}`))
}

function mapped(value: SecretValue, pointer: string, of: (pointer: string) => string): Json {
  if (typeof value === 'string') return of(pointer)
  if (Array.isArray(value)) return value.map((one, index) => mapped(one, `${pointer}/${index}`, of))
  const members = Object.entries(value).map(([name, one]) => [
    name,
    mapped(one, `${pointer}/${escapePointer(name)}`, of),
  ])
  return Object.fromEntries(members)
}

/** All leaves of a value, of any type. */
function leavesOf(value: unknown, pointer = '', name?: string): Leaf[] {
  if (typeof value !== 'object' || value === null) return [{ pointer, name, text: value }]
  const named = !Array.isArray(value)
  return Object.entries(value).flatMap(([key, one]) =>
    leavesOf(one, `${pointer}/${escapePointer(key)}`, named ? key : name),
  )
}

/** Errors of a value; they do not contain it. */
function secretErrors(value: unknown): readonly InputError[] {
  const fault = (pointer: string, detail: string): InputError => ({
    in: 'body',
    name: 'value',
    pointer: `/value${pointer}`,
    detail,
  })
  const { secretDepthMax: depth, secretBytesMax: bytes, secretStringsMax: texts } = FLOW_LIMITS
  if (exceedsDepth(value, depth)) return [fault('', `It is nested deeper than ${depth}.`)]
  if (Buffer.byteLength(JSON.stringify(value) ?? '') > bytes)
    return [fault('', `It has more than ${bytes} bytes.`)]
  const leaves = leavesOf(value)
  if (leaves.length === 0) return [fault('', 'It has no text in it.')]
  if (leaves.length > texts) return [fault('', `It has more than ${texts} texts.`)]
  return leaves.flatMap((leaf) => {
    const detail = faultOf(leaf)
    return detail === undefined ? [] : [fault(leaf.pointer, detail)]
  })
}

/**
 * A short string cannot be redacted reliably, so a secret must not be one. Other members of an object, whose names do not
 * denote secrets, such as `username`, may be.
 */
function faultOf({ text, name }: Leaf): string | undefined {
  if (typeof text !== 'string') return 'A secret is a string, or an object or list of strings.'
  if (!isStorable(text)) return 'It contains NUL or half of a surrogate pair.'
  const isSecret = name === undefined || isSecretName(name)
  if (text.length >= FLOW_LIMITS.secretCharsMin || !isSecret) return undefined
  return `It has fewer than ${FLOW_LIMITS.secretCharsMin} characters, which are too few to mask it in results.`
}
