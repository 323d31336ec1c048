/** What lets the Temporal UI in a browser read payloads as somebody: a token of theirs, sealed for this alone, in a cookie. */

import { decodeJwt } from 'jose'
import { LIMITS } from '../../core/limits.ts'
import type { Secrets } from '../secrets.ts'

/** The one path that the cookie is sent to, and is good for. */
export const PAGE_PASS_PATH = '/v1/codec/decode'

const NAME = 'tenon_payloads'
const PURPOSE = 'cookie:payloads'

interface Pass {
  readonly token: string
  /** Milliseconds since 1970. */
  readonly until: number
}

export class PagePass {
  readonly #secrets: Secrets
  readonly #attributes: string

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#secrets = secrets
    const secure = url.startsWith('https:') ? '; Secure' : ''
    this.#attributes = `Path=${PAGE_PASS_PATH}; HttpOnly; SameSite=Strict${secure}`
  }

  /**
   * @param token one that was verified: it ends no later than the token
   * @returns the value of a Set-Cookie header, and when it ends
   */
  issue(token: string): { cookie: string; until: Date } {
    const now = Date.now()
    const ends = (decodeJwt(token).exp ?? 0) * 1_000
    const until = Math.min(ends, now + LIMITS.pagePassSeconds * 1_000)
    const pass: Pass = { token, until }
    const sealed = this.#secrets.seal(PURPOSE, Buffer.from(JSON.stringify(pass))).toString('base64url')
    const seconds = Math.max(0, Math.floor((until - now) / 1_000))
    return { cookie: `${NAME}=${sealed}; Max-Age=${seconds}; ${this.#attributes}`, until: new Date(until) }
  }

  /**
   * The token in a Cookie header, which is yet to be verified.
   * @returns undefined where there is no such cookie; a text that is no token where it is not good any more
   */
  tokenIn(header = ''): string | undefined {
    const pairs = header.split(';').map((pair) => pair.trim())
    const text = pairs.find((pair) => pair.startsWith(`${NAME}=`))?.slice(NAME.length + 1)
    return text === undefined ? undefined : this.#open(text)
  }

  #open(text: string): string {
    try {
      const plain = this.#secrets.open(PURPOSE, Buffer.from(text, 'base64url'))
      const { token, until }: Pass = JSON.parse(plain.toString())
      return Date.now() < until ? token : ''
    } catch {
      return ''
    }
  }
}
