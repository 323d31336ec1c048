/** Verifies digest credentials by RFC 7616 §3.4 alone: user Mufasa, password "Circle of Life". */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const REALM = 'http-auth@example.org'
export const NONCE = '7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v'
export const OPAQUE = 'FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS'
export const MUFASA = { username: 'Mufasa', password: 'Circle of Life' }

/** The challenge: two of them with `both`, the weaker one first. */
export function challenge(algorithm: string): string {
  const one = (name: string) =>
    `Digest realm="${REALM}", qop="auth, auth-int", algorithm=${name}, nonce="${NONCE}", opaque="${OPAQUE}"`
  if (algorithm === 'both') return `Basic realm="${REALM}", ${one('MD5')}, ${one('SHA-256')}`
  return one(algorithm)
}

/** True if the request answers the challenge. */
export function isAnswered(request: {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
}): boolean {
  const { authorization = '' } = request.headers
  if (!authorization.startsWith('Digest ')) return false
  const field = (name: string) =>
    new RegExp(`[ ,]${name}=(?:"([^"]*)"|([^ ,]+))`).exec(authorization)?.slice(1).find(Boolean) ?? ''
  const algorithm = field('algorithm')
  const h = (text: string) =>
    createHash(algorithm.startsWith('SHA-256') ? 'sha256' : 'md5')
      .update(text)
      .digest('hex')
  const plain = h(`${MUFASA.username}:${REALM}:${MUFASA.password}`)
  const a1 = algorithm.endsWith('-sess') ? h(`${plain}:${NONCE}:${field('cnonce')}`) : plain
  const a2 = h(`${request.method}:${request.url}`)
  const wanted = h(`${a1}:${NONCE}:${field('nc')}:${field('cnonce')}:auth:${a2}`)
  const said = field('response')
  const rest = field('nonce') === NONCE && field('opaque') === OPAQUE && field('uri') === request.url
  return (
    rest &&
    field('username') === MUFASA.username &&
    said.length === wanted.length &&
    timingSafeEqual(Buffer.from(said), Buffer.from(wanted))
  )
}
