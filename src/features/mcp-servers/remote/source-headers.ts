/** Headers that a source adds to every request: values in clear, and secrets of the workspace by name. */

import Type, { type Static } from 'typebox'
import { AnyName } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { isSecretName, REDACTED } from '../../../core/redact.ts'
import { readSecretValues, SecretName } from '../../flows/secrets.ts'
import { MCP_LIMITS } from '../limits.ts'
import { rejectErrors } from '../tool.ts'
import { controlsConnection, isHeaderName } from './header-names.ts'

const TEXT = '^[\\t\\x20-\\x7e]*$'

const HeaderChoice = Type.Union([
  Type.Object(
    {
      secret: SecretName,
      prefix: Type.Optional(
        Type.String({
          pattern: TEXT,
          maxLength: 100,
          description: 'Text in front of the secret, such as `Bearer `.',
        }),
      ),
    },
    { additionalProperties: false, description: 'Secret of the workspace whose value is a string.' },
  ),
  Type.Object({ value: Type.String({ pattern: TEXT, maxLength: 1_000 }) }, { additionalProperties: false }),
])
export const HeaderChoices = Type.Record(AnyName, HeaderChoice, {
  maxProperties: MCP_LIMITS.sources.headersMax,
  description: 'Headers of every request, by name. Tools cannot replace them.',
})
export type HeaderChoices = Static<typeof HeaderChoices>

/** @throws Problem `validation_failed` for invalid and repeated names, and for a secret that is written in clear */
export function checkHeaders(headers: HeaderChoices): void {
  const names = Object.keys(headers)
  const lower = names.map((name) => name.toLowerCase())
  rejectErrors(
    names.map((name, index): InputError | undefined => {
      const detail = headerFault(name, headers[name])
      const repeated = lower.indexOf(name.toLowerCase()) < index ? 'is given twice' : undefined
      const found = detail ?? repeated
      const pointer = `/headers/${name.slice(0, 100)}`
      return found === undefined ? undefined : { in: 'body', name: 'headers', pointer, detail: found }
    }),
  )
}

function headerFault(name: string, choice: HeaderChoices[string] | undefined): string | undefined {
  if (!isHeaderName(name)) return 'is no name of a header'
  if (controlsConnection(name)) return 'controls the connection, and cannot be set'
  if (choice !== undefined && 'value' in choice && isSecretName(name))
    return 'holds a secret: write {"secret": "<name of a secret of the workspace>"}'
  return undefined
}

/** Headers of one request, and a function that takes their secrets out of a text. */
export interface SourceHeaders {
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly redact: (text: string) => string
}

/**
 * Reads the current values of the headers.
 * @throws Problem `state_conflict` if a secret does not exist, or is no text that a header can have
 */
export async function resolveHeaders(scope: WorkspaceScope, choices: HeaderChoices): Promise<SourceHeaders> {
  const names = Object.values(choices).flatMap((choice) => ('secret' in choice ? [choice.secret] : []))
  const values = names.length === 0 ? new Map<string, unknown>() : await readSecretValues(scope, names)
  const secrets: string[] = []
  const textOf = (choice: HeaderChoices[string]): string => {
    if ('value' in choice) return choice.value
    const value = values.get(choice.secret)
    if (typeof value !== 'string' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw unusable(choice.secret, value)
    secrets.push(value)
    return `${choice.prefix ?? ''}${value}`
  }
  const headers = Object.fromEntries(
    Object.entries(choices).map(([name, choice]) => [name.toLowerCase(), textOf(choice)]),
  )
  return { headers, redact: redactorOf(secrets) }
}

/**
 * Servers may repeat a secret, also in JSON and in URLs. The text is searched once: a secret may begin with another one.
 * @returns a function that takes the secrets out of a text
 */
export function redactorOf(secrets: readonly string[]): (text: string) => string {
  const forms = secrets
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
    .filter((form) => form !== '')
    .sort((a, b) => b.length - a.length)
  if (forms.length === 0) return (text) => text
  const any = new RegExp(forms.map(escaped).join('|'), 'g')
  return (text) => text.replaceAll(any, REDACTED)
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

function unusable(name: string, value: unknown): Problem {
  const why = value === undefined ? 'does not exist' : 'is no single line of text, as a header needs'
  const detail = `The secret ${name} of the source ${why}.`
  return new Problem('state_conflict', {
    detail,
    adminHint: 'An admin stores it: PUT /v1/flows/workspaces/{ws}/secrets/{name}.',
  })
}
