/** OAuth clients that were made through the API: machines with a secret, and public ones that act for people. */

import { idPattern } from '../../core/ids.ts'
import type { Role } from '../../core/policy.ts'
import type { Database } from '../pg/database.ts'
import { sql } from '../pg/sql.ts'
import { SystemScope } from '../system.ts'
import { KeyCache } from './key-cache.ts'
import type { Holding } from './people.ts'

export interface OAuthClient extends Holding {
  readonly id: string
  readonly name: string
  readonly kind: 'machine' | 'public'
  /** Of a machine. */
  readonly role: Role | null
  /** SHA-256 of a machine's secret, hex. */
  readonly secretHash: string | null
  readonly redirectUris: readonly string[]
  /** It came by itself: it gets tokens for hosted MCP servers and for nothing else. */
  readonly registered: boolean
}

const CLIENT_ID = new RegExp(idPattern('client'))

export class OAuthClients {
  readonly #system: SystemScope
  readonly #known = new KeyCache<OAuthClient | null>()

  constructor(database: Database) {
    this.#system = new SystemScope('issuer', database)
  }

  /** Remembered for a few seconds: that long a deleted client lives on. An id of another form is not looked up. */
  async find(id: string): Promise<OAuthClient | undefined> {
    if (!CLIENT_ID.test(id)) return undefined
    const known = this.#known.get(id)
    if (known !== undefined) return known ?? undefined
    const row = await this.#system.row<OAuthClient>(sql`
      select id, tenant_id as "tenantId", workspace_id as "workspaceId", name, kind, role,
        secret_hash as "secretHash", redirect_uris as "redirectUris", registered
      from oauth_clients where id = ${id}`)
    this.#known.set(id, row ?? null)
    return row
  }
}
