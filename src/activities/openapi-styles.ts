/** Knows how the value of a parameter is written, style by style (OpenAPI 3.1 "Style Values", RFC 6570). */

import { fieldsOf } from './http-auth-fields.ts'

export type Place = 'path' | 'query' | 'header' | 'cookie'

/** How one parameter is written. */
export interface Style {
  readonly name: string
  readonly style: string
  readonly explode: boolean
  /** Some of what is reserved in a URI goes as it is. */
  readonly reserved: boolean
}

type Pair = readonly [name: string, value: string]

/** Between the items of a list that is one text. */
const BETWEEN: Readonly<Record<string, string>> = {
  form: ',',
  simple: ',',
  spaceDelimited: '%20',
  pipeDelimited: '%7C',
  tabDelimited: '%09',
}

/** RFC 3986: all but unreserved characters; half a surrogate pair becomes U+FFFD. */
function percentEncoded(text: string, reserved = false): string {
  const encoded = encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\ufffd'))
  const strict = encoded.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  // Never what would end the value, or mean something else in it: & = + # %.
  return reserved
    ? strict.replaceAll(/%(?:2F|3A|3F|40|21|24|27|28|29|2A|2C|3B)/g, decodeURIComponent)
    : strict
}

/** What is no list or object as text; what is within one of those, as JSON. */
function plain(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The pairs of a query, or of a form: names and values percent-encoded. */
export function queryPairs(parameter: Style, value: unknown): readonly Pair[] {
  const { name, style, explode, reserved } = parameter
  const encode = (one: unknown) => percentEncoded(plain(one), reserved)
  const key = percentEncoded(name)
  if (typeof value !== 'object' || value === null) return [[key, encode(value)]]
  if (style === 'deepObject') return deepPairs(key, value, encode)
  const between = BETWEEN[style] ?? ','
  if (Array.isArray(value)) {
    return explode ? value.map((one) => [key, encode(one)]) : [[key, value.map(encode).join(between)]]
  }
  const members = Object.entries(value).map(([member, one]) => [percentEncoded(member), encode(one)] as const)
  return explode ? members : [[key, members.flat().join(between)]]
}

/** `name[member]=value`, and so on below. */
function deepPairs(key: string, value: object, encode: (one: unknown) => string): readonly Pair[] {
  return Object.entries(value).flatMap(([member, one]) => {
    const below = Array.isArray(value) ? key : `${key}[${percentEncoded(member)}]`
    return typeof one === 'object' && one !== null
      ? deepPairs(below, one, encode)
      : [[below, encode(one)] as const]
  })
}

/** The text of a segment of a path: `simple`, `label` or `matrix`. */
export function segmentOf({ name, style, explode }: Style, value: unknown): string {
  const encode = (one: unknown) => percentEncoded(plain(one))
  const parts = partsOf(value, explode, encode)
  if (style === 'label') return `.${parts.join(explode ? '.' : ',')}`
  if (style !== 'matrix') return parts.join(',')
  const key = percentEncoded(name)
  if (!explode || typeof value !== 'object') return `;${key}=${parts.join(',')}`
  return parts.map((part) => (Array.isArray(value) ? `;${key}=${part}` : `;${part}`)).join('')
}

/** A header has the style `simple`, and nothing in it is percent-encoded. */
export function headerOf({ explode }: Style, value: unknown): string {
  return partsOf(value, explode, plain).join(',')
}

function partsOf(value: unknown, explode: boolean, encode: (one: unknown) => string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [encode(value)]
  if (Array.isArray(value)) return value.map(encode)
  return Object.entries(fieldsOf(value)).flatMap(([member, one]) =>
    explode ? [`${encode(member)}=${encode(one)}`] : [encode(member), encode(one)],
  )
}
