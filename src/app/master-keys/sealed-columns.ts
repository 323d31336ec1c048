/**
 * The list of all columns whose values depend on a master key: `tenon master-key rotate` encrypts them again. For a new one, add a row,
 * and grant `tenon_key_rotation` in its SQL file what it needs; test/integration/master-keys/sealed-columns.test.ts compares the list with
 * the catalogue of PostgreSQL.
 */

import type { ChainSigner, Checkpoint } from '../../access/audit/chain-signer.ts'
import { storageKeyPurpose } from '../../access/authentication/authenticator.ts'
import { SIGNING_KEY_PURPOSE } from '../../access/authentication/signing-keys.ts'
import { replyPurpose } from '../../access/idempotency.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import { secretPurpose } from '../../features/flows/secrets.ts'
import { factorPurpose } from '../../features/identity/factors/second-factors.ts'
import { ISSUER_STATE_PURPOSE } from '../../features/identity/issuer/issuer-state.ts'
import type { StoredAuth } from '../../features/identity/users/auth-settings.ts'
import { providerPurpose } from '../../features/identity/users/identity-provider-settings.ts'
import { webhookPurpose } from '../../features/runs/triggers/standard-webhooks.ts'
import { purposeIn, type Secrets } from '../../infra/crypto/secrets.ts'
import { Sql, sql } from '../../infra/postgres/sql.ts'
import { payloadKeyPurpose } from '../../infra/temporal/payload-keys.ts'

/** The master keys, and the services that encrypt or sign under them: a rotation encrypts and signs each value again. */
export interface Resealer {
  readonly secrets: Secrets
  readonly signer: ChainSigner
}

/** The key of a row, and what else its purpose depends on, as PostgreSQL prints them. */
export type RowFacts = Readonly<Record<string, string>>

type KeyType = 'text' | 'name' | 'bytea' | 'integer'

export interface SealedColumn {
  /** In the schema `tenon`. */
  readonly table: string
  readonly column: string
  readonly type: 'bytea' | 'jsonb' | 'text'
  /** The columns of the primary key, in their order. */
  readonly key: Readonly<Record<string, KeyType>>
  /** Further facts of a row `r` by their name. */
  readonly about: Readonly<Record<string, Sql>>
  /** The ids of the master keys that the value of a row `r` depends on: an array of texts, with an empty one for what is not sealed. */
  readonly keyIds: Sql
  /**
   * @param value as PostgreSQL prints it @returns the same under the first master key
   * @throws Error if it cannot be opened
   */
  readonly reseal?: (row: RowFacts, value: string, by: Resealer) => string | Promise<string>
  /** Where values cannot be made again: when the one of a row `r` ends. */
  readonly endsAt?: Sql
}

/** The key id of a sealed value. */
const idIn = (bytes: Sql): Sql =>
  sql`case when octet_length(${bytes}) >= 37 and get_byte(${bytes}, 0) = 1 then encode(substring(${bytes} from 2 for 8), 'hex') else '' end`

/** The first bytes of a text of base64url, of which `chars`, a multiple of four, are read; null if it is none. */
const bytesIn = (text: Sql, chars: 12 | 32): Sql =>
  sql`case when left(${text}, ${chars}) ~ '^[A-Za-z0-9_-]+$' and length(${text}) >= ${chars}
    then decode(translate(left(${text}, ${chars}), '-_', '+/'), 'base64') end`

const bytesOf = (value: string): Buffer => Buffer.from(value.slice('\\x'.length), 'hex')

/** A column of the type bytea, one value a row. */
function sealedBytes(
  table: string,
  column: string,
  key: Readonly<Record<string, KeyType>>,
  purposeOf: (row: RowFacts) => string,
  about: Readonly<Record<string, Sql>> = {},
): SealedColumn {
  return {
    ...{ table, column, type: 'bytea', key, about },
    keyIds: sql`array[${idIn(sql`r.${Sql.identifier(column)}`)}]`,
    reseal: (row, value, { secrets }) => {
      const purpose = purposeOf(row)
      return `\\x${secrets.seal(purpose, secrets.open(purpose, bytesOf(value))).toString('hex')}`
    },
  }
}

const refOf = ({ tenant_id, workspace_id }: RowFacts): WorkspaceRef => ({
  tenantId: tenant_id as TenantId,
  workspaceId: workspace_id as WorkspaceId,
})

const WORKSPACE = { tenant_id: 'text', workspace_id: 'text' } as const
const REF = { tenant_id: sql`r.tenant_id`, workspace_id: sql`r.workspace_id` }

/** The webhook that a secret belongs to. */
const TARGET = Object.fromEntries(
  ['target_id', 'key'].map((name) => [
    name,
    sql`(select t.${Sql.identifier(name)} from tenon.triggers t
      where t.tenant_id = r.tenant_id and t.workspace_id = r.workspace_id and t.id = r.trigger_id)`,
  ]),
)
const WEBHOOK_KEY = { ...WORKSPACE, trigger_id: 'text' } as const
const purposeOfWebhook = (row: RowFacts) =>
  purposeIn(refOf(row), webhookPurpose(row['target_id'] ?? '', row['key'] ?? ''))

/** Client secrets of identity providers, in a setting. */
const PROVIDERS: SealedColumn = {
  ...{ table: 'services', column: 'auth', type: 'jsonb', key: WORKSPACE, about: {} },
  keyIds: sql`array(select coalesce(encode(substring(${bytesIn(sql`(p ->> 'sealed')`, 12)} from 2 for 8), 'hex'), '')
    from jsonb_array_elements(coalesce(r.auth -> 'providers', '[]')) p where p ? 'sealed')`,
  reseal: (row, value, { secrets }) => {
    const auth: Partial<StoredAuth> = JSON.parse(value)
    const providers = auth.providers?.map((provider) => {
      if (provider.sealed === undefined) return provider
      const purpose = providerPurpose(refOf(row), provider)
      const plain = secrets.open(purpose, Buffer.from(provider.sealed, 'base64url'))
      return { ...provider, sealed: secrets.seal(purpose, plain).toString('base64url') }
    })
    return JSON.stringify({ ...auth, providers })
  },
}

/** Signatures, whose header begins with `{"kid":"`. */
const CHECKPOINTS: SealedColumn = {
  ...{ table: 'chain_checkpoints', column: 'signature', type: 'text', key: { ...WORKSPACE, chain: 'text' } },
  about: { seq: sql`r.seq`, hash: sql`encode(r.hash, 'hex')` },
  keyIds: sql`array[coalesce(substring(encode(${bytesIn(sql`r.signature`, 32)}, 'escape') from 9), '')]`,
  reseal: (row, signature, { signer }) =>
    signer.signAgain(signature, { ...row, seq: Number(row['seq']) } as unknown as Checkpoint),
}

const REPLY_KEY = { ...WORKSPACE, role: 'name', id: 'bytea' } as const

/** MACs of requests, which nobody can compute again: they end with their rows. */
const REQUESTS: SealedColumn = {
  ...{ table: 'idempotency', column: 'request', type: 'bytea', key: REPLY_KEY, about: {} },
  keyIds: sql`case when octet_length(r.request) = 40 and r.expires_at > now()
    then array[encode(substring(r.request from 1 for 8), 'hex')] else '{}' end`,
  endsAt: sql`r.expires_at`,
}

export const SEALED_COLUMNS: readonly SealedColumn[] = [
  sealedBytes('signing_keys', 'sealed', { id: 'text' }, () => SIGNING_KEY_PURPOSE),
  sealedBytes('payload_keys', 'sealed', { tenant_id: 'text', number: 'integer' }, (row) =>
    payloadKeyPurpose(`${row['tenant_id']}.${row['number']}`),
  ),
  sealedBytes('flow_secrets', 'sealed', { ...WORKSPACE, name: 'text' }, (row) =>
    purposeIn(refOf(row), secretPurpose(row['name'] ?? '')),
  ),
  sealedBytes('webhook_secrets', 'sealed', WEBHOOK_KEY, purposeOfWebhook, TARGET),
  sealedBytes('webhook_secrets', 'previous', WEBHOOK_KEY, purposeOfWebhook, TARGET),
  sealedBytes(
    'api_keys',
    'secret',
    { id: 'text' },
    (row) => purposeIn(refOf(row), storageKeyPurpose(row['id'] ?? '')),
    REF,
  ),
  sealedBytes('second_factors', 'sealed', { subject_id: 'text' }, (row) => factorPurpose(refOf(row)), REF),
  PROVIDERS,
  sealedBytes('issuer_state', 'sealed', { id: 'bytea' }, () => ISSUER_STATE_PURPOSE),
  sealedBytes('idempotency', 'reply', REPLY_KEY, (row) => replyPurpose(bytesOf(row['id'] ?? ''))),
  REQUESTS,
  CHECKPOINTS,
]
