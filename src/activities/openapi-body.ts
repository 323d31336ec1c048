/** Knows the body of an operation: the media type that is sent, the names that belong in it, and how it is written. */

import { callFailure } from './call-failure.ts'
import { type Fields, fieldsOf } from './http-auth-fields.ts'
import { resolved } from './openapi-refs.ts'
import { queryPairs } from './openapi-styles.ts'

const FORM = 'application/x-www-form-urlencoded'

export interface Body {
  readonly media: string
  readonly required: boolean
  /** The name of the parameter that is the whole body. */
  readonly name: string
  /** Names of parameters that are properties of the body; undefined where any may be. */
  readonly fields: readonly string[] | undefined
  /** Of those, the ones that must be there. */
  readonly needed: readonly string[]
}

/** `requestBody` of OpenAPI 3. */
export function bodyOf(document: Fields, operation: Fields): Body | undefined {
  if (operation['requestBody'] === undefined) return undefined
  const given = resolved(document, operation['requestBody'])
  const content = fieldsOf(given['content'])
  const media = mediaOf(Object.keys(content))
  const key = Object.keys(content).find((one) => one === media || isAny(one)) ?? media
  const schema = fieldsOf(content[key])['schema']
  const fields = schema === undefined ? undefined : propertiesOf(document, schema)
  return { media, required: given['required'] === true, name: 'body', fields, needed: [] }
}

/** The parameter `in: body`, or those `in: formData`, of Swagger 2.0. */
export function formBodyOf(
  document: Fields,
  operation: Fields,
  parameters: readonly Fields[],
): Body | undefined {
  const consumes = operation['consumes'] ?? document['consumes']
  const types = Array.isArray(consumes) ? consumes.map(String) : []
  const whole = parameters.find((one) => one['in'] === 'body')
  if (whole !== undefined) {
    const fields = propertiesOf(document, whole['schema'])
    const media = mediaOf(types.length === 0 ? ['application/json'] : types)
    return { media, required: whole['required'] === true, name: String(whole['name']), fields, needed: [] }
  }
  const form = parameters.filter((one) => one['in'] === 'formData')
  if (form.length === 0) return undefined
  const media = mediaOf(
    types.length === 0 ? [FORM] : types.filter((one) => one === FORM || /^multipart\//.test(one)),
  )
  const needed = form.filter((one) => one['required'] === true).map((one) => String(one['name']))
  return {
    media,
    required: needed.length > 0,
    name: 'body',
    fields: form.map((one) => String(one['name'])),
    needed,
  }
}

const isAny = (type: string) => type === '*/*' || type === 'application/*'

/** JSON where it is taken, else a form, else text. */
function mediaOf(types: readonly string[]): string {
  const plain = types.map((type) => type.split(';')[0]?.trim().toLowerCase() ?? '')
  const json = plain.findIndex((type) => type === 'application/json' || type.endsWith('+json'))
  if (json >= 0) return types[json] ?? 'application/json'
  if (plain.some(isAny)) return 'application/json'
  const other = plain.findIndex((type) => type === FORM || type.startsWith('text/'))
  if (other >= 0) return types[other] ?? FORM
  const list = types.map((type) => type.slice(0, 100)).join(', ')
  throw callFailure(
    'configuration',
    `The operation takes a body only as ${list || 'nothing'}, which is not supported.`,
  )
}

/** Names of the properties of an object, also of those it is made of, each looked at once; undefined where it has none. */
function propertiesOf(document: Fields, schema: unknown): readonly string[] | undefined {
  const names = new Set<string>()
  const seen = new Set<Fields>()
  const left = [resolved(document, schema)]
  for (let at = left.pop(); at !== undefined; at = left.pop()) {
    if (seen.has(at)) continue
    seen.add(at)
    const { properties, allOf } = at
    for (const name of Object.keys(fieldsOf(properties))) names.add(name)
    for (const part of Array.isArray(allOf) ? allOf : []) left.push(resolved(document, part))
  }
  return names.size === 0 ? undefined : [...names]
}

/**
 * The body as it is sent.
 * @throws ApplicationFailure (validation) where the value cannot be written as that type
 */
export function written({ media }: Body, value: unknown): string {
  const type = media.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type.startsWith('text/')) return typeof value === 'string' ? value : JSON.stringify(value)
  if (type !== FORM) return JSON.stringify(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw callFailure('validation', 'The body must be an object: it is sent as a form.')
  }
  const pairs = Object.entries(value).flatMap(([name, one]) =>
    queryPairs({ name, style: 'form', explode: true, reserved: false }, one),
  )
  return pairs.map((pair) => pair.join('=')).join('&')
}
