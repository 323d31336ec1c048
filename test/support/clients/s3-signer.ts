/** Signs requests of the S3 API by hand, so that tests can send what no client would: AWS Signature Version 4. */

import { createHash, createHmac } from 'node:crypto'
import type { StorageKey } from './s3.ts'

export interface Unsigned {
  readonly method: string
  readonly host: string
  /** Decoded. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** `x-amz-content-sha256`. Default: that of an empty body. */
  readonly payload?: string
  readonly key: StorageKey
  /** Seconds, of a URL. */
  readonly expires?: number
  readonly date?: Date
}

export interface Signed {
  readonly method: string
  /** Path and query as they are sent. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const escapeText = (text: string) =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

/** With the signature in the header `Authorization`. */
export function sign({
  method,
  host,
  path,
  query = {},
  headers = {},
  payload = sha256(''),
  key,
  date,
}: Unsigned): Signed {
  const time = timeOf(date)
  const all = { ...headers, host, 'x-amz-date': time, 'x-amz-content-sha256': payload }
  const names = Object.keys(all)
    .map((name) => name.toLowerCase())
    .sort()
  const target = targetOf(path, query)
  const [scope, signature] = signatureOf({ method, target, headers: all }, { names, payload, key, time })
  const credential = `Credential=${key.id}/${scope}`
  const authorization = `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`
  return { method, target, headers: { ...all, authorization } }
}

/** With the signature in the URL. */
export function presign({
  method,
  host,
  path,
  query = {},
  headers = {},
  key,
  expires = 60,
  date,
}: Unsigned): Signed {
  const time = timeOf(date)
  const all = { ...headers, host }
  const names = Object.keys(all)
    .map((name) => name.toLowerCase())
    .sort()
  const parameters = {
    ...query,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${key.id}/${scopeOf(time)}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(expires),
    'X-Amz-SignedHeaders': names.join(';'),
  }
  const target = targetOf(path, parameters)
  const of = { names, payload: 'UNSIGNED-PAYLOAD', key, time }
  const [, signature] = signatureOf({ method, target, headers: all }, of)
  return { method, target: `${target}&X-Amz-Signature=${signature}`, headers }
}

const timeOf = (date = new Date()) => date.toISOString().replaceAll(/[-:]|\.\d+/g, '')
const scopeOf = (time: string) => `${time.slice(0, 8)}/us-east-1/s3/aws4_request`

function targetOf(path: string, query: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(query).map(([name, value]) => [escapeText(name), escapeText(value)] as const)
  const sorted = pairs.sort(([a], [b]) => (a < b ? -1 : 1)).map((pair) => pair.join('='))
  const escaped = path.split('/').map(escapeText).join('/')
  return sorted.length === 0 ? escaped : `${escaped}?${sorted.join('&')}`
}

function signatureOf(
  { method, target, headers }: Signed,
  { names, payload, key, time }: { names: readonly string[]; payload: string; key: StorageKey; time: string },
): [scope: string, signature: string] {
  const [path, query = ''] = target.split('?')
  const values = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const lines = names.map((name) => `${name}:${values.get(name)}\n`).join('')
  const canonical = [method, path, query, lines, names.join(';'), payload].join('\n')
  const scope = scopeOf(time)
  let signing: Buffer = Buffer.from(`AWS4${key.secret}`)
  for (const part of scope.split('/')) signing = createHmac('sha256', signing).update(part).digest()
  const text = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n')
  return [scope, createHmac('sha256', signing).update(text).digest('hex')]
}
