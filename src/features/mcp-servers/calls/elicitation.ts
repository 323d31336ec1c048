/** The result of an elicitation (MCP, "Elicitation", `ElicitResult`), as a client sends it. */

import { isObject } from '../../../core/json.ts'

/** `content` is not validated, and may be missing; only an accepted elicitation has it. */
type ElicitResult =
  | { readonly action: 'accept'; readonly content: unknown }
  | { readonly action: 'decline' | 'cancel' }

/** @returns undefined if a response of a client is no result of an elicitation */
export function readElicitResult(response: unknown): ElicitResult | undefined {
  if (!isObject(response)) return undefined
  const { action, content } = response
  if (action === 'accept') return { action, content }
  return action === 'decline' || action === 'cancel' ? { action } : undefined
}

/** The fields of an accepted form; undefined if the user has not accepted it, or the response has no fields. */
export function acceptedFields(response: unknown): Readonly<Record<string, unknown>> | undefined {
  const result = readElicitResult(response)
  return result?.action === 'accept' && isObject(result.content) ? result.content : undefined
}
