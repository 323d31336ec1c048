/** What a secret is: a text, or texts by their places; how it lies in the database, and which handles stand for it. */

import { deeper, token } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { isSecretName } from '../../core/redact.ts'
import { handleOf } from '../../core/secret-handle.ts'
import type { Json, LentSecrets } from '../../core/work.ts'
import { derive, openSealed, seal } from '../../platform/capabilities.ts'
import { sql, textArray } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

export type SecretValue = string | readonly SecretValue[] | { readonly [name: string]: SecretValue }

/** A text of a secret: where it is (RFC 6901), and the last name on the way there. */
interface Leaf {
  readonly pointer: string
  readonly name: string | undefined
  readonly text: unknown
}

const purposeOf = (name: string) => `flow-secret:${name}`

/**
 * The value as it is kept, sealed for its name.
 * @throws Problem `validation_failed` where it is no secret: see {@link faultOf}
 */
export function sealed(scope: WorkspaceScope, name: string, value: unknown): Buffer {
  const errors = faultsOf(value)
  if (errors.length > 0) {
    throw new Problem('validation_failed', { detail: 'The value is not that of a secret.', errors })
  }
  return seal(scope, purposeOf(name), Buffer.from(JSON.stringify(value)))
}

/** @throws Error where it was sealed for another name, or elsewhere */
export function opened(scope: WorkspaceScope, name: string, hex: string): SecretValue {
  return JSON.parse(openSealed(scope, purposeOf(name), Buffer.from(hex, 'hex')).toString())
}

/** The values of the run's secrets as they are now; of what is not there any more, nothing. */
export async function valuesOf(
  scope: WorkspaceScope,
  names: readonly string[],
): Promise<ReadonlyMap<string, SecretValue>> {
  const rows = await scope.rows<{ name: string; hex: string }>(sql`
    select name, encode(sealed, 'hex') as hex from flow_secrets where name = any(${textArray(names)}::text[])`)
  return new Map(rows.map(({ name, hex }) => [name, opened(scope, name, hex)]))
}

/** What `$secrets` shows of a secret in a run: a handle, or handles at the places of the texts; one where it is missing. */
export function shownAs(scope: WorkspaceScope, run: string, name: string, value: SecretValue = ''): Json {
  return mapped(value, '', (pointer) => handleAt(scope, run, name, pointer))
}

/** Every text of the run's secrets by the handle that stands for it. */
export function textsByHandle(
  scope: WorkspaceScope,
  { run }: LentSecrets,
  values: ReadonlyMap<string, SecretValue>,
): ReadonlyMap<string, string> {
  const texts = new Map<string, string>()
  for (const [name, value] of values) {
    for (const { pointer, text } of leavesOf(value)) {
      texts.set(handleAt(scope, run, name, pointer), String(text))
    }
  }
  return texts
}

/**
 * Follows from the master key, so an activity makes it anew instead of believing what it is given; and from the run, so
 * that of another run, flow or workspace none is known.
 */
function handleAt(scope: WorkspaceScope, run: string, name: string, pointer: string): string {
  return handleOf(name, derive(scope, `flow-secret-handle:${run}:${name}:${pointer}`))
}

function mapped(value: SecretValue, pointer: string, of: (pointer: string) => string): Json {
  if (typeof value === 'string') return of(pointer)
  if (Array.isArray(value)) return value.map((one, index) => mapped(one, `${pointer}/${index}`, of))
  const members = Object.entries(value).map(([name, one]) => [
    name,
    mapped(one, `${pointer}/${token(name)}`, of),
  ])
  return Object.fromEntries(members)
}

/** What is no object and no list, whatever it is. */
function leavesOf(value: unknown, pointer = '', name?: string): Leaf[] {
  if (typeof value !== 'object' || value === null) return [{ pointer, name, text: value }]
  const named = !Array.isArray(value)
  return Object.entries(value).flatMap(([key, one]) =>
    leavesOf(one, `${pointer}/${token(key)}`, named ? key : name),
  )
}

/** What is wrong with a value; the value itself is not repeated. */
function faultsOf(value: unknown): readonly InputError[] {
  const fault = (pointer: string, detail: string): InputError => ({
    in: 'body',
    name: 'value',
    pointer: `/value${pointer}`,
    detail,
  })
  const { flowSecretDepthMax: depth, flowSecretBytesMax: bytes, flowSecretTextsMax: texts } = LIMITS
  if (deeper(value, depth)) return [fault('', `It is nested deeper than ${depth}.`)]
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
 * A short text cannot be found in an answer without finding it in others. So a secret must not be one; what is beside it
 * in an object and has not the name of a secret, such as `username`, may be.
 */
function faultOf({ text, name }: Leaf): string | undefined {
  if (typeof text !== 'string') return 'A secret is a text, or an object or list of texts.'
  if (text.includes('\u0000') || /\p{Surrogate}/u.test(text))
    return 'It holds NUL or half of a surrogate pair.'
  const isSecret = name === undefined || isSecretName(name)
  if (text.length >= LIMITS.flowSecretCharsMin || !isSecret) return undefined
  return `It has fewer than ${LIMITS.flowSecretCharsMin} characters; it could not be kept out of answers.`
}
