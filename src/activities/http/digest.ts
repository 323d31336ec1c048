/**
 * Digest access authentication (RFC 7616) with one challenge, `auth`, and SHA-256 or MD5. Libraries that support SHA-256,
 * `-sess` and `userhash` send the request themselves and would bypass the egress guard.
 */

import { createHash, randomBytes } from 'node:crypto'
import type { Inbound, Outbound } from '../../infra/http-client/egress.ts'
import { callFailure } from '../call-failure.ts'
import type { CallHttpClient } from './call-http-client.ts'

type Params = Readonly<Record<string, string>>

interface Credentials {
  readonly username: string
  readonly password: string
}

/** The algorithms of RFC 7616 §3.3 with Node's names for their hashes, the strongest first. */
const HASHES: readonly (readonly [name: string, hash: string])[] = [
  ['sha-256', 'sha256'],
  ['sha-256-sess', 'sha256'],
  ['md5', 'md5'],
  ['md5-sess', 'md5'],
]

/** Sends the request without credentials first, and repeats it with the response to the challenge. */
export async function sendDigest(
  credentials: Credentials,
  outbound: Outbound,
  http: CallHttpClient,
): Promise<Inbound> {
  const first = await http.send(outbound)
  if (first.status !== 401) return first
  const challenge = strongestDigest(challengesOf(first.headers['www-authenticate'] ?? ''))
  if (challenge === undefined) {
    throw callFailure('authentication', 'The server offers no digest authentication that is supported.')
  }
  const { method, url } = outbound
  const request = { method, uri: `${url.pathname}${url.search}` }
  const authorization = digestAnswer(credentials, challenge, request, randomBytes(18).toString('base64'))
  return http.send({ ...outbound, headers: { ...outbound.headers, authorization } })
}

/** The supported digest challenge with the strongest algorithm (RFC 7616 §3.7). */
function strongestDigest(challenges: readonly (readonly [scheme: string, Params])[]): Params | undefined {
  const digests = challenges.filter(([scheme]) => scheme === 'digest').map(([, params]) => params)
  const usable = digests.filter(
    ({ qop, nonce, realm }) =>
      nonce !== undefined &&
      realm !== undefined &&
      (qop === undefined || /(^|[\s,])auth([\s,]|$)/i.test(qop)),
  )
  for (const [name] of HASHES) {
    const found = usable.find(({ algorithm = 'MD5' }) => algorithm.toLowerCase() === name)
    if (found !== undefined) return found
  }
  return undefined
}

/**
 * Builds the header `Authorization` (RFC 7616 §3.4).
 * @param uri path and query of the request, as they are sent
 * @param cnonce an unpredictable text, new for each request
 */
export function digestAnswer(
  { username, password }: Credentials,
  challenge: Params,
  { method, uri }: { readonly method: string; readonly uri: string },
  cnonce: string,
): string {
  const { realm = '', nonce = '', opaque, algorithm, qop, userhash } = challenge
  const name = (algorithm ?? 'MD5').toLowerCase()
  const hash = HASHES.find(([known]) => known === name)?.[1] ?? 'md5'
  const h = (text: string) => createHash(hash).update(text).digest('hex')
  const secret = h(`${username}:${realm}:${password}`)
  const first = name.endsWith('-sess') ? h(`${secret}:${nonce}:${cnonce}`) : secret
  const second = h(`${method}:${uri}`)
  const middle = qop === undefined ? nonce : `${nonce}:00000001:${cnonce}:auth`
  const isHashed = userhash?.toLowerCase() === 'true'
  const fields = [
    isHashed ? `username=${quoted(h(`${username}:${realm}`))}` : nameField(username),
    `realm=${quoted(realm)}`,
    `nonce=${quoted(nonce)}`,
    `uri=${quoted(uri)}`,
    `response="${h(`${first}:${middle}:${second}`)}"`,
    ...(algorithm === undefined ? [] : [`algorithm=${algorithm}`]),
    ...(qop === undefined ? [] : ['qop=auth', 'nc=00000001', `cnonce=${quoted(cnonce)}`]),
    ...(opaque === undefined ? [] : [`opaque=${quoted(opaque)}`]),
    ...(isHashed ? ['userhash=true'] : []),
  ]
  return `Digest ${fields.join(', ')}`
}

/** The field of the user name; one that is not ASCII is sent as an extended value (RFC 8187). */
function nameField(username: string): string {
  if (/^[\x20-\x7e]*$/.test(username)) return `username=${quoted(username)}`
  return `username*=UTF-8''${encodeURIComponent(Buffer.from(username).toString())}`
}

const quoted = (text: string) => `"${text.replaceAll(/["\\]/g, '\\$&')}"`

const PART = /[\s,]*([\w!#$%&'*+.^`|~-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([\w!#$%&'*+.^`|~-]+)))?/y

/** Parses the challenges of `WWW-Authenticate` and their parameters (RFC 9110 §11.6.1), with names in lower case. */
export function challengesOf(header: string): readonly (readonly [scheme: string, Params])[] {
  const found: [string, Record<string, string>][] = []
  PART.lastIndex = 0
  for (let part = PART.exec(header); part !== null; part = PART.exec(header)) {
    const [, name = '', text, token] = part
    const value = text?.replaceAll(/\\(.)/g, '$1') ?? token
    if (value === undefined) found.push([name.toLowerCase(), Object.create(null)])
    else if (found.length > 0)
      (found.at(-1) as [string, Record<string, string>])[1][name.toLowerCase()] = value
  }
  return found
}
