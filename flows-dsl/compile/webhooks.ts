/** Compiles webhooks, an extension of ours: addresses at which other systems start executions (docs/webhooks.md). */

import type { Webhook, WebhookResponse, WebhookVerification } from '../ir.ts'
import { omitUndefined } from '../json.ts'
import type { CompileContext } from './compile-context.ts'
import { optionalDuration } from './duration.ts'
import { type MapNode, type SourceNode, valueAt } from './source-nodes.ts'

export const WEBHOOKS_MAX = 16
export const WEBHOOK_HEADERS_MAX = 16
export const WEBHOOK_NAME = '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$'
export const WEBHOOK_HEADER = '^[a-z][a-z0-9-]{0,62}$'
/** Headers that may carry credentials are refused: the input of an execution is stored and readable. */
export const SECRET_HEADER = 'auth|cookie|credential|key|password|secret|session|signature|token'

const WEBHOOK_KEYS = ['name', 'headers', 'verify', 'include', 'challenge', 'respond'] as const
export const WEBHOOK_SCHEMES = [
  'standard',
  'github',
  'stripe',
  'slack',
  'shopify',
  'twilio',
  'bearer',
  'url',
] as const
export const WEBHOOK_ALGORITHMS = ['sha256', 'sha1', 'sha512'] as const
export const WEBHOOK_ENCODINGS = ['hex', 'base64'] as const
export const WEBHOOK_INCLUDES = ['query', 'raw'] as const
export const WEBHOOK_RESPONSES = ['output', 'response'] as const
/** Of an HMAC, before the signature in its header, such as `sha256=`. */
export const WEBHOOK_PREFIX = '^[!-~]{1,40}$'
/** Name of a query parameter that a GET request echoes. */
export const WEBHOOK_CHALLENGE = '^[A-Za-z0-9._-]{1,64}$'
const RESPOND_MS_MAX = 25_000

/** Compiles `webhook`: one, or a list of them with different names. */
export function compileWebhooks(schedule: MapNode, context: CompileContext): readonly Webhook[] | undefined {
  const node = valueAt(schedule, 'webhook')
  if (node === undefined) return undefined
  const items = node.kind === 'list' ? node.items : [node]
  if (items.length === 0 || items.length > WEBHOOKS_MAX) {
    return context.report('value_invalid', node, `\`webhook\` must have 1 to ${WEBHOOKS_MAX} webhooks.`)
  }
  const names = new Set<string>()
  return items.map((item) => compileWebhook(item, names, context)).filter((one) => one !== undefined)
}

function compileWebhook(node: SourceNode, names: Set<string>, context: CompileContext): Webhook | undefined {
  const map = context.map(node, 'A webhook', WEBHOOK_KEYS)
  if (map === undefined) return undefined
  const name = compileWebhookName(map, context)
  const headers = compileHeaders(map, context)
  if (name === undefined || headers === undefined) return undefined
  if (names.has(name)) {
    return context.report('value_invalid', map, `Two webhooks are named \`${name}\`.`, 'Give each a `name`.')
  }
  names.add(name)
  return omitUndefined({
    name,
    headers: headers.length > 0 ? headers : undefined,
    verify: compileVerify(map, context),
    include: compileInclude(map, context),
    challenge: compileChallenge(map, context),
    respond: compileRespond(map, context),
  })
}

function compileWebhookName(map: MapNode, context: CompileContext): string | undefined {
  const node = valueAt(map, 'name')
  if (node === undefined) return 'default'
  const name = context.text(node, '`name`')
  if (name === undefined || new RegExp(WEBHOOK_NAME).test(name)) return name
  const hint = 'Write at most 63 lower-case letters, digits and inner hyphens.'
  return context.report('value_invalid', node, '`name` cannot be the name of a webhook.', hint)
}

function compileHeaders(map: MapNode, context: CompileContext): readonly string[] | undefined {
  const node = valueAt(map, 'headers')
  if (node === undefined) return []
  if (node.kind !== 'list') return context.report('wrong_type', node, '`headers` must be a list of names.')
  if (node.items.length > WEBHOOK_HEADERS_MAX) {
    return context.report(
      'value_invalid',
      node,
      `\`headers\` must have at most ${WEBHOOK_HEADERS_MAX} names.`,
    )
  }
  const names = node.items.map((item) => compileHeader(item, context))
  return names.every((name) => name !== undefined) ? names : undefined
}

function compileHeader(node: SourceNode, context: CompileContext): string | undefined {
  const name = context.text(node, 'A header')
  if (name === undefined) return undefined
  if (!new RegExp(WEBHOOK_HEADER).test(name)) {
    return context.report(
      'value_invalid',
      node,
      `\`${name}\` is not the name of a header.`,
      'Write lower-case letters.',
    )
  }
  if (!new RegExp(SECRET_HEADER).test(name)) return name
  const hint = 'Leave the header out: the input of an execution is stored, and must not contain credentials.'
  return context.report('value_invalid', node, `The header \`${name}\` can contain a credential.`, hint)
}

/** A scheme by its name, or a signature that the definition describes. Absent for Standard Webhooks. */
function compileVerify(map: MapNode, context: CompileContext): WebhookVerification | undefined {
  const node = valueAt(map, 'verify')
  if (node?.kind === 'map') return compileHmac(map, context)
  const scheme = context.optionalChoice(map, 'verify', WEBHOOK_SCHEMES)
  return scheme === undefined || scheme === 'standard' ? undefined : { scheme }
}

function compileHmac(map: MapNode, context: CompileContext): WebhookVerification | undefined {
  const verify = context.optionalMap(map, 'verify', ['hmac'])
  const hmac = verify && context.requiredMap(verify, '`verify`', 'hmac', HMAC_KEYS)
  if (hmac === undefined) return undefined
  const header = compileSignatureHeader(hmac, context)
  const algorithm = context.choice(hmac, 'algorithm', WEBHOOK_ALGORITHMS)
  const encoding = context.choice(hmac, 'encoding', WEBHOOK_ENCODINGS)
  const prefix = compilePattern(hmac, 'prefix', WEBHOOK_PREFIX, context)
  if (header === undefined || algorithm === undefined || encoding === undefined) return undefined
  return { scheme: 'hmac', header, algorithm, encoding, ...omitUndefined({ prefix }) }
}

const HMAC_KEYS = ['header', 'algorithm', 'encoding', 'prefix'] as const

function compileSignatureHeader(hmac: MapNode, context: CompileContext): string | undefined {
  const node = context.required(hmac, '`hmac`', 'header')
  return node && compilePattern(hmac, 'header', WEBHOOK_HEADER, context)
}

/** The text at a key, which matches the pattern. */
function compilePattern(
  map: MapNode,
  key: string,
  pattern: string,
  context: CompileContext,
): string | undefined {
  const node = valueAt(map, key)
  const text = node && context.text(node, `\`${key}\``)
  if (node === undefined || text === undefined || new RegExp(pattern).test(text)) return text
  const hint = pattern === WEBHOOK_HEADER ? 'Write the name of a header in lower-case letters.' : undefined
  return context.report('value_invalid', node, `\`${key}\` cannot be \`${text}\`.`, hint)
}

function compileInclude(map: MapNode, context: CompileContext): Webhook['include'] {
  const node = valueAt(map, 'include')
  if (node === undefined) return undefined
  if (node.kind !== 'list') return context.report('wrong_type', node, '`include` must be a list.')
  const words = node.items.map((item) => {
    const text = context.text(item, 'A member of `include`')
    const word = WEBHOOK_INCLUDES.find((one) => one === text)
    if (text === undefined || word !== undefined) return word
    const message = `\`include\` cannot contain \`${text}\`.`
    return context.reportUnknown('value_invalid', item, message, text, WEBHOOK_INCLUDES)
  })
  return words.every((word) => word !== undefined) ? words : undefined
}

function compileChallenge(map: MapNode, context: CompileContext): string | undefined {
  return compilePattern(map, 'challenge', WEBHOOK_CHALLENGE, context)
}

/** `respond: output` or `response`, or with a time limit `{ with, within }`. */
function compileRespond(map: MapNode, context: CompileContext): WebhookResponse | undefined {
  const node = valueAt(map, 'respond')
  if (node === undefined) return undefined
  if (node.kind !== 'map') {
    const word = context.optionalChoice(map, 'respond', WEBHOOK_RESPONSES)
    return word && { with: word, withinMs: RESPOND_MS_MAX }
  }
  const inner = context.optionalMap(map, 'respond', ['with', 'within'])
  if (inner === undefined) return undefined
  const word = context.choice(inner, 'with', WEBHOOK_RESPONSES)
  const withinMs = optionalDuration(inner, 'within', 1, context) ?? RESPOND_MS_MAX
  if (withinMs > RESPOND_MS_MAX) {
    return context.report(
      'value_invalid',
      valueAt(inner, 'within') ?? inner,
      '`within` must be at most PT25S.',
    )
  }
  return word && { with: word, withinMs }
}
