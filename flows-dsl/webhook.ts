/** Knows what a flow says of its webhooks: names, and the headers that its runs are shown. Ours; OWS 1.0 has none. */

import type { Checker } from './checker.ts'
import type { Webhook } from './ir.ts'
import { entryOf, type Located, type LocatedMap } from './located.ts'

export const WEBHOOKS_MAX = 16
export const WEBHOOK_HEADERS_MAX = 16
export const WEBHOOK_NAME = '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$'
export const WEBHOOK_HEADER = '^[a-z][a-z0-9-]{0,62}$'
/** What a run is shown is kept with it and shown to others, so that no credential may be among it. */
export const SECRET_HEADER = 'auth|cookie|credential|key|password|secret|session|signature|token'
const DEFAULT = 'default'

const [NAME, HEADER, SECRET] = [WEBHOOK_NAME, WEBHOOK_HEADER, SECRET_HEADER].map((text) => new RegExp(text))

/** Compiles `webhook`: one, or a list of them whose names differ. */
export function compileWebhooks(schedule: LocatedMap, checker: Checker): readonly Webhook[] | undefined {
  const given = entryOf(schedule, 'webhook')?.value
  if (given === undefined) return undefined
  const items: readonly Located[] = given.kind === 'list' ? given.items : [given]
  if (items.length === 0 || items.length > WEBHOOKS_MAX) {
    return checker.fault('value_invalid', given, `\`webhook\` is one to ${WEBHOOKS_MAX} of them.`)
  }
  const named = new Set<string>()
  return items.map((item) => compileWebhook(item, named, checker)).filter((one) => one !== undefined)
}

function compileWebhook(given: Located, named: Set<string>, checker: Checker): Webhook | undefined {
  const map = checker.map(given, 'A webhook')
  if (map === undefined) return undefined
  checker.keys(map, 'a webhook', ['name', 'headers'])
  const name = compileName(map, checker)
  const headers = compileHeaders(map, checker)
  if (name === undefined || headers === undefined) return undefined
  if (named.has(name)) {
    return checker.fault('value_invalid', map, `Two webhooks are named \`${name}\`.`, 'Give each a `name`.')
  }
  named.add(name)
  return { name, ...(headers.length > 0 && { headers }) }
}

function compileName(map: LocatedMap, checker: Checker): string | undefined {
  const given = entryOf(map, 'name')?.value
  if (given === undefined) return DEFAULT
  const name = checker.text(given, '`name`')
  if (name === undefined || NAME?.test(name)) return name
  const hint = 'Small letters, digits and inner hyphens, 63 at most.'
  return checker.fault('value_invalid', given, '`name` cannot be the name of a webhook.', hint)
}

function compileHeaders(map: LocatedMap, checker: Checker): readonly string[] | undefined {
  const given = entryOf(map, 'headers')?.value
  if (given === undefined) return []
  if (given.kind !== 'list') return checker.fault('wrong_type', given, '`headers` must be a list of names.')
  if (given.items.length > WEBHOOK_HEADERS_MAX) {
    return checker.fault('value_invalid', given, `\`headers\` are ${WEBHOOK_HEADERS_MAX} at most.`)
  }
  const names = given.items.map((item) => compileHeader(item, checker))
  return names.every((name) => name !== undefined) ? names : undefined
}

function compileHeader(given: Located, checker: Checker): string | undefined {
  const name = checker.text(given, 'A header')
  if (name === undefined) return undefined
  if (!HEADER?.test(name)) {
    return checker.fault('value_invalid', given, `\`${name}\` is no name of a header.`, 'Small letters.')
  }
  if (!SECRET?.test(name)) return name
  const hint = 'What a run is shown is kept with it; credentials do not belong there.'
  return checker.fault('value_invalid', given, `\`${name}\` may carry a credential.`, hint)
}
