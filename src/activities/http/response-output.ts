/** Knows what a flow gets of an answer: its content by its type, the whole response, or the raw bytes (OWS 1.0 "HTTP Response"). */

import { isUtf8 } from 'node:buffer'
import { isTooDeep } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { redact } from '../../core/redact.ts'
import type { Inbound, Outbound } from '../../infra/http-client/egress.ts'

/**
 * `content` (the default) is the content, read by its type; `response` also has status, headers and the request,
 * without what identifies its sender; `raw` is the content in base64.
 */
export function toOutput(form: unknown, { method, url, headers }: Outbound, inbound: Inbound): unknown {
  if (form === 'raw') return inbound.body.toString('base64')
  const content = contentOf(inbound)
  if (form !== 'response') return content
  const request = redact({ method: method.toLowerCase(), uri: url.href, headers })
  return { request, statusCode: inbound.status, headers: inbound.headers, content }
}

const JSON_TYPE = /^[^;]*[/+]json\s*(;|$)/i
const TEXT_TYPE =
  /^\s*(text\/|application\/(xml|yaml|x-yaml|javascript|x-www-form-urlencoded|graphql|sql)\b|[^;]*\+(xml|yaml)\s*(;|$))/i

/** JSON is parsed, text is text in its own charset, and all else is base64. Nothing is null. */
function contentOf({ headers, body }: Inbound): unknown {
  if (body.length === 0) return null
  const type = headers['content-type'] ?? ''
  if (JSON_TYPE.test(type)) return parsed(body)
  const isText = type === '' ? isUtf8(body) : TEXT_TYPE.test(type)
  return isText ? textOf(body, type) : body.toString('base64')
}

function parsed(body: Buffer): unknown {
  const value = jsonOf(body)
  if (!isTooDeep(value)) return value
  const detail = `The answer is nested deeper than ${LIMITS.runInputDepthMax}.`
  throw new Problem('upstream_invalid', { detail })
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch (cause) {
    throw new Problem('upstream_invalid', { detail: 'The answer says it is JSON and is not.', cause })
  }
}

function textOf(body: Buffer, type: string): string {
  const charset = /;\s*charset="?([\w-]{1,40})/i.exec(type)?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(charset).decode(body)
  } catch {
    return body.toString('utf8')
  }
}
