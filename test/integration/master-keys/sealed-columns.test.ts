/** The list of columns that depend on a master key is complete: the catalogue of PostgreSQL and the sources are compared with it. */

import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { SEALED_COLUMNS } from '../../../src/app/master-keys/sealed-columns.ts'
import { asSuperuser } from '../../support/fixtures/tenants.ts'

/** Columns of bytes that nothing of a master key is in. */
const NOT_SEALED: Readonly<Record<string, string>> = {
  'accounts.invitation': 'SHA-256 of a link',
  'api_keys.hash': 'SHA-256 of a key',
  'audit.hash': 'of the chain',
  'audit.prev_hash': 'of the chain',
  'audit_heads.hash': 'of the chain',
  'callbacks.token_sha256': 'SHA-256 of a token',
  'chain_checkpoints.hash': 'of the chain',
  'deleted_accounts.address': 'SHA-256 of an address',
  'idempotency.id': 'SHA-256 of credential and key',
  'idempotency.seed': 'random',
  'issuer_state.grant_key': 'SHA-256 of a grant',
  'issuer_state.id': 'SHA-256 of a token',
  'issuer_state.uid_key': 'SHA-256 of a session',
  'mcp_call_heads.hash': 'of the chain',
  'mcp_calls.hash': 'of the chain',
  'mcp_calls.prev_hash': 'of the chain',
  'mcp_results.content': 'large results',
  'mcp_server_versions.signature': 'by a signing key, which is stored',
  'user_links.digest': 'SHA-256 of a link',
  'passkeys.public_key': 'public',
}

/** Sources that seal or derive what no column has: its reader accepts what each configured key has made. */
const STATELESS: Readonly<Record<string, string>> = {
  'access/authentication/object-links.ts': 'links',
  'access/authentication/session-cookie.ts': 'cookies',
  'access/scope-services.ts': 'passes on',
  'features/collections/page.ts': 'cursors',
  'features/identity/issuer/embedded-issuer.ts': 'cookies, and the secret of the client tenon-operator',
  'features/identity/factors/tickets.ts': 'tickets',
  'features/mcp-servers/calls/client-requests.ts': 'state of a request',
  'mcp/hosted/hosted-sessions.ts': 'ids of sessions',
  'infra/postgres/installation.ts': 'the check value of the key',
}

/** Sources that write a listed column. */
const WRITERS: Readonly<Record<string, string>> = {
  'access/audit/chain-signer.ts': 'chain_checkpoints.signature',
  'access/authentication/signing-keys.ts': 'signing_keys.sealed',
  'access/idempotency.ts': 'idempotency.reply',
  'app/master-keys/sealed-columns.ts': 'all',
  'features/flows/secrets.ts': 'flow_secrets.sealed',
  'features/identity/issuer/issuer-state.ts': 'issuer_state.sealed',
  'features/identity/keys/storage-key.ts': 'api_keys.secret',
  'features/identity/users/identity-provider-settings.ts': 'services.auth',
  'features/identity/factors/second-factors.ts': 'second_factors.sealed',
  'features/runs/triggers/webhooks.ts': 'webhook_secrets.sealed',
  'infra/temporal/payload-keys.ts': 'payload_keys.sealed',
}

const withoutComments = (source: string) => source.replaceAll(/\/\*[\s\S]*?\*\//g, '')

const listed = SEALED_COLUMNS.map(({ table, column }) => `${table}.${column}`)

test('column of bytes, or with the name of a secret: in the list of sealed columns, or of those that are not sealed', async () => {
  const columns = await asSuperuser<{ name: string }>(`
    select c.relname || '.' || a.attname as name
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('tenon', 'public') and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
      and (a.atttypid in ('bytea'::regtype, 'bytea[]'::regtype) or a.attname ~ '(sealed|encrypted|secret|signature)$')`)
  const unknown = columns
    .map(({ name }) => name)
    .filter((name) => !listed.includes(name) && !(name in NOT_SEALED))
  expect(unknown).toEqual([])
  const names = columns.map(({ name }) => name)
  expect(Object.keys(NOT_SEALED).filter((name) => !names.includes(name) || listed.includes(name))).toEqual([])
})

test('listed column: key is the primary key, and tenon_key_rotation may do what it needs and nothing else', async () => {
  const columns = await asSuperuser<{
    table: string
    column: string
    type: string
    in_key: number | null
    may: string[]
  }>(`
    select c.relname as table, a.attname as column, format_type(a.atttypid, a.atttypmod) as type,
      array_position(i.indkey::smallint[], a.attnum) as in_key,
      array_remove(array[case when has_column_privilege('tenon_key_rotation', c.oid, a.attnum, 'update') then 'update' end,
        case when has_column_privilege('tenon_key_rotation', c.oid, a.attnum, 'insert') then 'insert' end,
        case when has_table_privilege('tenon_key_rotation', c.oid, 'delete') then 'delete' end], null) as may
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_index i on i.indrelid = c.oid and i.indisprimary
    where n.nspname in ('tenon', 'tenon_data') and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped`)
  for (const { table, column, type, key } of SEALED_COLUMNS) {
    const found = columns.filter((one) => one.table === table)
    const inKey = found
      .filter((one) => one.in_key !== null)
      .sort((a, b) => Number(a.in_key) - Number(b.in_key))
    expect([table, inKey.map((one) => [one.column, one.type])]).toEqual([table, Object.entries(key)])
    expect([table, column, found.find((one) => one.column === column)?.type]).toEqual([table, column, type])
  }
  const changed = columns.flatMap(({ table, column, may }) =>
    may.map((right) => `${right} ${table}.${column}`),
  )
  const needed = SEALED_COLUMNS.filter(({ reseal }) => reseal).map(
    ({ table, column }) => `update ${table}.${column}`,
  )
  expect(changed.sort()).toEqual(needed.sort())
  const members = await asSuperuser<{ member: string }>(
    `select m.member::regrole::text as member from pg_auth_members m where m.roleid = 'tenon_key_rotation'::regrole`,
  )
  // The owner's connection alone, never the login role of the processes.
  expect(members.map(({ member }) => member)).not.toContain('tenon_app')
})

test('source that encrypts or derives: its column is listed, or its reader accepts every configured key', async () => {
  const names = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.ts'))
  const uses = /ecrets\.(seal|macs|derive|deriveAll)\(|\b(encryptFor|encryptIn)\(/
  const sealing = await Promise.all(
    names.map(async (name) =>
      uses.test(withoutComments(await readFile(`src/${name}`, 'utf8'))) ? [name] : [],
    ),
  )
  const known = [...Object.keys(STATELESS), ...Object.keys(WRITERS)].sort()
  expect(sealing.flat().sort()).toEqual(known)
  const columns = new Set(Object.values(WRITERS))
  expect([...columns].filter((name) => name !== 'all' && !listed.includes(name))).toEqual([])
})
