/** Decodes the content of responses, and excerpts those of failed calls for the error of the flow. */

import type { ErrorResponse } from '../../../flows-dsl/errors.ts'
import { clip, type Json, parseNumbersExactly } from '../../../flows-dsl/json.ts'
import { isTooDeep } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { isSecretName } from '../../core/redact.ts'
import { MASK } from '../../core/secret-handle.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { decodeText, isJson, isText } from '../../infra/http-client/content.ts'
import type { Inbound } from '../../infra/http-client/egress.ts'

/** Decodes the body: JSON is parsed, text is decoded by its charset, other types become base64. An empty body is null. */
export function contentOf(inbound: Inbound): unknown {
  const { body } = inbound
  if (body.length === 0) return null
  if (isJson(inbound)) return parseJson(body)
  return isText(inbound) ? decodeText(inbound) : body.toString('base64')
}

function parseJson(body: Buffer): unknown {
  const { value, lossy } = decodeJson(body)
  if (lossy !== undefined) {
    const detail = `The response has the integer ${lossy.slice(0, 40)}, which is beyond 2^53 and would lose digits. Ask the server to send it as text, or read the body as base64 of its text with \`output: raw\`.`
    throw new Problem('upstream_invalid', { detail })
  }
  if (!isTooDeep(value)) return value
  const detail = `The response is nested deeper than ${CORE_LIMITS.valueDepthMax} levels.`
  throw new Problem('upstream_invalid', { detail })
}

function decodeJson(body: Buffer): ReturnType<typeof parseNumbersExactly> {
  try {
    return parseNumbersExactly(new TextDecoder().decode(body))
  } catch (cause) {
    throw new Problem('upstream_invalid', {
      detail: 'The response has a JSON content type and is not valid JSON.',
      cause,
    })
  }
}

/**
 * The response of a failed call, bounded because errors are stored with every step. Headers that hold secrets are masked, and
 * those that are too large together are left out. Content that is too large or not valid is shown as text.
 * @param redactExcerpt masks the secrets of the call in a text that may end within one
 */
export function errorResponseOf(inbound: Inbound, redactExcerpt: (text: string) => string): ErrorResponse {
  const { status } = inbound
  const headers = boundedHeaders(inbound.headers)
  const content = inbound.isExcerpt ? undefined : wholeContent(inbound)
  if (content !== undefined) return { status, headers, content }
  const text = isJson(inbound) || isText(inbound) ? decodeText(inbound) : undefined
  const excerpt =
    text === undefined ? null : clip(redactExcerpt(text), FLOW_LIMITS.errorResponse.contentBytesMax)
  return { status, headers, content: excerpt, truncated: true }
}

/** The decoded content; undefined if it is too large or not valid. */
function wholeContent(inbound: Inbound): Json | undefined {
  try {
    const content = contentOf(inbound) as Json
    const isSmall = Buffer.byteLength(JSON.stringify(content)) <= FLOW_LIMITS.errorResponse.contentBytesMax
    return isSmall ? content : undefined
  } catch (error) {
    if (error instanceof Problem) return undefined
    throw error
  }
}

function boundedHeaders(given: Inbound['headers']): ErrorResponse['headers'] {
  let left: number = FLOW_LIMITS.errorResponse.headersBytesMax
  const kept = Object.entries(given).flatMap(([name, value]) => {
    const shown = isSecretName(name) ? MASK : value
    const bytes = Buffer.byteLength(name) + Buffer.byteLength(shown)
    if (bytes > left) return []
    left -= bytes
    return [[name, shown] as const]
  })
  return Object.fromEntries(kept)
}
