/** The data keys of tenants: created when first needed, and rotated by age. */

import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import { isTenantId, type TenantId } from '../../core/tenant.ts'
import type { Secrets } from '../crypto/secrets.ts'
import { INFRA_LIMITS } from '../limits.ts'
import type { StatementExecutor } from '../postgres/database.ts'
import { violated } from '../postgres/errors.ts'
import { type Sql, sql } from '../postgres/sql.ts'
import type { SessionContext } from '../postgres/statement-batch.ts'

/** Its id, `<tenant>.<number>`, is stored with everything that it encrypts. */
export interface DataKey {
  readonly id: string
  /** 32 bytes. */
  readonly secret: Buffer
}

/** All keys of a tenant. */
interface KeyRing {
  readonly keys: ReadonlyMap<string, DataKey>
  /** Undefined if the keys were destroyed: nothing is encrypted for the tenant any more. */
  readonly newest: DataKey | undefined
}

interface KeyRow {
  readonly number: number
  readonly sealed: Buffer | null
  readonly is_old: boolean
}

const { keyDays, keyCacheMs, tenantsCachedMax } = INFRA_LIMITS.payloads

export class PayloadKeys {
  readonly #database: StatementExecutor
  readonly #secrets: Secrets
  readonly #rings = new LRUCache<TenantId, KeyRing>({
    max: tenantsCachedMax,
    ttl: keyCacheMs,
    noDeleteOnFetchRejection: true,
    fetchMethod: async (tenantId) =>
      this.#opened(tenantId, await this.#renewed(tenantId, await this.#rows(tenantId))),
  })

  constructor(database: StatementExecutor, secrets: Secrets) {
    this.#database = database
    this.#secrets = secrets
  }

  /**
   * The key that encrypts.
   * @throws Problem `payload_unreadable` if the tenant's keys were destroyed, `dependency_unavailable`
   */
  async newest(tenantId: TenantId): Promise<DataKey> {
    const { newest } = await this.#ring(tenantId)
    return newest ?? gone()
  }

  /**
   * The key of an id.
   * @throws Problem `payload_unreadable` if it was destroyed or never existed, `dependency_unavailable`
   */
  async of(id: string): Promise<DataKey> {
    const tenantId = tenantOf(id)
    const known = (await this.#ring(tenantId)).keys.get(id)
    // Another process may have created it since.
    return known ?? (await this.#ring(tenantId, true)).keys.get(id) ?? gone()
  }

  /** Cached for a while; while the database is unavailable, for longer. */
  async #ring(tenantId: TenantId, isForced = false): Promise<KeyRing> {
    const known = this.#rings.peek(tenantId, { allowStale: true })
    return this.#rings.forceFetch(tenantId, { forceRefresh: isForced }).catch((error: unknown) => {
      if (isForced || known === undefined) throw error
      return known
    })
  }

  /** The rows with a new key, if there is none yet or the newest is too old. */
  async #renewed(tenantId: TenantId, rows: readonly KeyRow[]): Promise<readonly KeyRow[]> {
    const last = rows.at(-1)
    if (last !== undefined && (last.sealed === null || !last.is_old)) return rows
    const number = (last?.number ?? 0) + 1
    const sealed = this.#secrets.seal(payloadKeyPurpose(`${tenantId}.${number}`), randomBytes(32))
    // Concurrent processes insert under the same number; one row is kept.
    await this.#batch(
      tenantId,
      sql`insert into payload_keys (number, sealed) values (${number}, ${sealed}) on conflict do nothing`,
    ).catch((error: unknown) => {
      throw violated(error) === undefined ? error : unreadable('There is no such tenant any more.')
    })
    return this.#rows(tenantId)
  }

  #opened(tenantId: TenantId, rows: readonly KeyRow[]): KeyRing {
    const keys = rows.flatMap(({ number, sealed }) => {
      const id = `${tenantId}.${number}`
      return sealed === null ? [] : [{ id, secret: this.#secrets.open(payloadKeyPurpose(id), sealed) }]
    })
    const newest = rows.at(-1)?.sealed === null ? undefined : keys.at(-1)
    return { keys: new Map(keys.map((key) => [key.id, key])), newest }
  }

  #rows(tenantId: TenantId): Promise<readonly KeyRow[]> {
    return this.#batch(
      tenantId,
      sql`select number, sealed, created_at < now() - make_interval(days => ${keyDays}) as is_old
        from payload_keys order by number`,
    )
  }

  async #batch(tenant: TenantId, statement: Sql): Promise<readonly KeyRow[]> {
    const context: SessionContext = {
      role: 'tenon_payload_keys',
      tenant,
      workspace: '',
      statementTimeoutMs: 5_000,
    }
    const [rows = []] = await this.#database.batch(context, [statement])
    return rows as unknown as KeyRow[]
  }
}

/** The tenant of a key id. @throws Problem `payload_unreadable` for a malformed id */
export function tenantOf(keyId: string): TenantId {
  const [tenantId, number, ...rest] = keyId.split('.')
  if (!isTenantId(tenantId) || !/^[1-9]\d{0,8}$/.test(number ?? '') || rest.length > 0) return gone()
  return tenantId
}

export const payloadKeyPurpose = (id: string) => `payload-key:${id}`

function gone(): never {
  throw unreadable('The key was destroyed that this was encrypted with.')
}

function unreadable(detail: string): Problem {
  return new Problem('payload_unreadable', { detail })
}
