/** Serialises parameters of OpenAPI for URLs and headers (OpenAPI 3.1 "Style Values", RFC 3986). */

/** The serialisation of one parameter. */
export interface Style {
  readonly name: string
  readonly style: string
  readonly explode: boolean
  /** Some reserved characters of URIs are not encoded (`allowReserved`). */
  readonly reserved: boolean
}

type Pair = readonly [name: string, value: string]

export const joinPairs = (pairs: readonly Pair[], separator: string) =>
  pairs.map((pair) => pair.join('=')).join(separator)

/** The separators of lists, by style. */
const SEPARATORS: Readonly<Record<string, string>> = {
  form: ',',
  simple: ',',
  spaceDelimited: '%20',
  pipeDelimited: '%7C',
  tabDelimited: '%09',
}

/** Decodes percent-encoding (RFC 3986 §2.1). A text that is not encoded correctly stays as it is. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Encodes all but the unreserved characters of RFC 3986. A lone surrogate becomes U+FFFD. */
function percentEncoded(text: string, reserved = false): string {
  const encoded = encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\ufffd'))
  const strict = encoded.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  // The characters & = + # % stay encoded, because they would end the value or change its meaning.
  return reserved
    ? strict.replaceAll(/%(?:2F|3A|3F|40|21|24|27|28|29|2A|2C|3B)/g, decodeURIComponent)
    : strict
}

/** The text of a value: JSON for a list or object, empty for null. */
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
  const separator = SEPARATORS[style] ?? ','
  if (Array.isArray(value)) {
    return explode ? value.map((one) => [key, encode(one)]) : [[key, value.map(encode).join(separator)]]
  }
  const members = Object.entries(value).map(([member, one]) => [percentEncoded(member), encode(one)] as const)
  return explode ? members : [[key, members.flat().join(separator)]]
}

/** The pairs of style `deepObject`: `name[member]=value`, recursively. */
function deepPairs(key: string, value: object, encode: (one: unknown) => string): readonly Pair[] {
  return Object.entries(value).flatMap(([member, one]) => {
    const below = Array.isArray(value) ? key : `${key}[${percentEncoded(member)}]`
    return typeof one === 'object' && one !== null
      ? deepPairs(below, one, encode)
      : [[below, encode(one)] as const]
  })
}

/** The text of a path parameter in style `simple`, `label` or `matrix`. */
export function segmentOf({ name, style, explode }: Style, value: unknown): string {
  const encode = (one: unknown) => percentEncoded(plain(one))
  const parts = partsOf(value, explode, encode)
  if (style === 'label') return `.${parts.join(explode ? '.' : ',')}`
  if (style !== 'matrix') return parts.join(',')
  const key = percentEncoded(name)
  if (!explode || typeof value !== 'object') return `;${key}=${parts.join(',')}`
  return parts.map((part) => (Array.isArray(value) ? `;${key}=${part}` : `;${part}`)).join('')
}

/** The text of a header parameter: style `simple`, without percent-encoding. */
export function headerOf({ explode }: Style, value: unknown): string {
  return partsOf(value, explode, plain).join(',')
}

function partsOf(value: unknown, explode: boolean, encode: (one: unknown) => string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [encode(value)]
  if (Array.isArray(value)) return value.map(encode)
  return Object.entries(value).flatMap(([member, one]) =>
    explode ? [`${encode(member)}=${encode(one)}`] : [encode(member), encode(one)],
  )
}
