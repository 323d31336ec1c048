/** The cookie of a person who has signed in at the page of an approval. */

import { LIMITS } from '../../core/limits.ts'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import type { Account } from '../issuer/accounts-store.ts'

const NAME = 'tenon_approver'
const PURPOSE = 'cookie:approver'

/** The encrypted value of the cookie. */
interface Session {
  readonly id: string
  /** Of the account: another password, or disabling it, ends the session. */
  readonly generation: number
  /** Milliseconds since 1970. */
  readonly until: number
}

export class ApprovalSession {
  readonly #secrets: Secrets
  readonly #attributes: string

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#secrets = secrets
    const secure = url.startsWith('https:') ? '; Secure' : ''
    // Not Strict: the first request comes from a link in a mail.
    this.#attributes = `Path=/approvals; HttpOnly; SameSite=Lax${secure}`
  }

  /** The value of a Set-Cookie header. */
  issue({ id, generation }: Account): string {
    const seconds = LIMITS.approvals.sessionSeconds
    const session: Session = { id, generation, until: Date.now() + seconds * 1_000 }
    const encrypted = this.#secrets.seal(PURPOSE, Buffer.from(JSON.stringify(session))).toString('base64url')
    return `${NAME}=${encrypted}; Max-Age=${seconds}; ${this.#attributes}`
  }

  /** The value of a Set-Cookie header that ends the session. */
  end(): string {
    return `${NAME}=; Max-Age=0; ${this.#attributes}`
  }

  /** The account in a Cookie header, whose generation is to be checked; undefined without a valid session. */
  read(header = ''): Pick<Session, 'id' | 'generation'> | undefined {
    const pairs = header.split(';').map((pair) => pair.trim())
    const text = pairs.find((pair) => pair.startsWith(`${NAME}=`))?.slice(NAME.length + 1)
    if (text === undefined) return undefined
    try {
      const session: Session = JSON.parse(
        this.#secrets.open(PURPOSE, Buffer.from(text, 'base64url')).toString(),
      )
      return Date.now() < session.until ? session : undefined
    } catch {
      return undefined
    }
  }
}
