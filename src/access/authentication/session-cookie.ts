/** A cookie whose value only the platform can read and make: an encrypted session that expires. */

import type { Secrets } from '../../infra/crypto/secrets.ts'

export interface CookieSettings {
  readonly name: string
  /** Derives the key: a value that was sealed for another purpose is not accepted. */
  readonly purpose: string
  readonly path: string
  readonly sameSite: 'Lax' | 'Strict'
}

/** `until` is in milliseconds since 1970. */
type Session = Readonly<Record<string, unknown>> & { readonly until: number }

export class SessionCookie<T extends Session> {
  readonly #secrets: Secrets
  readonly #name: string
  readonly #purpose: string
  readonly #attributes: string

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string, { name, purpose, path, sameSite }: CookieSettings) {
    this.#secrets = secrets
    this.#name = name
    this.#purpose = purpose
    const secure = url.startsWith('https:') ? '; Secure' : ''
    this.#attributes = `Path=${path}; HttpOnly; SameSite=${sameSite}${secure}`
  }

  /** @param nowMs the time from which `Max-Age` counts @returns the value of a Set-Cookie header */
  issue(session: T, nowMs: number): string {
    const sealed = this.#secrets.seal(this.#purpose, Buffer.from(JSON.stringify(session)))
    const seconds = Math.max(0, Math.floor((session.until - nowMs) / 1_000))
    return `${this.#name}=${sealed.toString('base64url')}; Max-Age=${seconds}; ${this.#attributes}`
  }

  /** @returns the value of a Set-Cookie header that ends the session */
  end(): string {
    return `${this.#name}=; Max-Age=0; ${this.#attributes}`
  }

  /** @returns the session in a Cookie header; undefined without the cookie; `invalid` if it has expired or was changed */
  read(header = ''): T | 'invalid' | undefined {
    const pairs = header.split(';').map((pair) => pair.trim())
    const text = pairs.find((pair) => pair.startsWith(`${this.#name}=`))?.slice(this.#name.length + 1)
    if (text === undefined) return undefined
    try {
      const session: T = JSON.parse(
        this.#secrets.open(this.#purpose, Buffer.from(text, 'base64url')).toString(),
      )
      return Date.now() < session.until ? session : 'invalid'
    } catch {
      return 'invalid'
    }
  }
}
