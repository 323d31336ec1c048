/** Archives of a workspace and of a tenant have no secret: neither as it is, nor sealed, nor its digest, in whatever member. */

import { beforeAll, expect, test } from 'vitest'
import { createSweepResources } from '../isolation/sweep-rows.ts'
import { addAccount } from '../support/clients/browser.ts'
import { ok } from '../support/clients/mcp.ts'
import { enrol } from '../support/clients/second-factors.ts'
import { addUser, createUserApp } from '../support/clients/users.ts'
import { exportArchive, exportTenantArchive, membersOf } from '../support/fixtures/archives.ts'
import { canary, storeSecret } from '../support/fixtures/secrets.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { configure } from '../support/stack/workspace-settings.ts'

/** A value that must not leave the platform, with where it is. */
interface Hidden {
  readonly of: string
  readonly value: string | Buffer
}

let workspace: TestWorkspace
let hidden: readonly Hidden[]
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  await createSweepResources(workspace)
  hidden = [...(await makeCredentials()), ...(await storedValues())]
})

/** Makes one credential of each kind. @returns their texts */
async function makeCredentials(): Promise<Hidden[]> {
  const { operator: as, tenantId: tenant_id, workspaceId: workspace_id, service, anon, flows } = workspace
  const post = (path: string, body: object) => ok(call('POST', path, { as, body }))
  const provider = {
    ...{ id: 'idp', name: 'Shop', issuer: 'https://id.example.com', client_id: 'tenon' },
    client_secret: canary('provider'),
  }
  const app = await createUserApp(workspace, 'invite')
  await configure(workspace, { auth: { providers: [provider] } })
  const person = await enrol(app, await addUser(app))
  const { invitation_url } = await post('/v1/users', { workspace_id, email: `${unique('x')}@example.test` })
  const admin = await addAccount(as, { role: 'tenant_admin', tenant_id })
  const secret = canary('secret')
  await storeSecret(workspace, 'TOKEN', secret)
  const storage = { workspace_id, kind: 'storage', name: 's3', actions: ['read'] }
  const { key } = await post('/v1/api-keys', storage)
  const machine = { kind: 'machine', role: 'service', name: 'm', tenant_id, workspace_id }
  const { client_secret } = await post('/v1/oauth-clients', machine)
  const ofTenant = { kind: 'machine', role: 'tenant_admin', name: 'm', tenant_id }
  const tenants = await post('/v1/oauth-clients', ofTenant)
  const agent = await post(`/v1/mcp/workspaces/${workspace_id}/servers/sweep/clients`, { name: 'y' })
  const triggers = (await ok(call('GET', `${flows}/triggers`, { as }))).data
  const webhook = triggers.find(({ kind }: { kind: string }) => kind === 'webhook')
  const rotated = await post(`${flows}/triggers/${webhook.id}/rotate-secret`, {})
  const texts = {
    'service key': service['apikey'],
    'anon key': anon['apikey'],
    'storage key': key,
    'secret of a flow': secret,
    'secret of a provider': provider.client_secret,
    'secret of a machine': client_secret,
    'secret of a machine of the tenant': tenants.client_secret,
    'secret of an MCP client': agent.client_secret,
    'secret of a webhook': rotated.secret,
    'password of a user': person.password,
    'app of a user': person.secret,
    'recovery code': person.recovery[0],
    'password of an account': admin.password,
    invitation: new URL(invitation_url).searchParams.get('token'),
  }
  return Object.entries(texts).map(([of, value]) => {
    expect([of, typeof value, (value ?? '').length > 5]).toEqual([of, 'string', true])
    return { of, value: String(value) }
  })
}

/** Texts that are digests of passwords or secrets, or sealed; bytes are all taken. */
const SECRET_TEXT = /password|secret|sealed|recovery/

/** What the tables of the tenant have in columns for secrets, by the catalogue of PostgreSQL. */
async function storedValues(): Promise<Hidden[]> {
  const columns = await asSuperuser<{ relation: string; name: string; type: string }>(
    `select c.table_name as relation, c.column_name as name, c.udt_name as type from information_schema.columns c
     join information_schema.columns t on t.table_schema = 'tenon' and t.table_name = c.table_name and t.column_name = 'tenant_id'
     where c.table_schema = 'tenon' and c.udt_name in ('bytea', 'text', '_text')`,
  )
  const values: Hidden[] = []
  for (const { relation, name, type } of columns) {
    if (type !== 'bytea' && !SECRET_TEXT.test(name)) continue
    const each = type === '_text' ? `unnest(${name})` : name
    const rows = await asSuperuser<{ value: string | Buffer | null }>(
      `select distinct ${each} as value from tenon.${relation} where tenant_id = $1`,
      [workspace.tenantId],
    )
    for (const { value } of rows)
      if (value !== null && value.length >= 8) values.push({ of: `${relation}.${name}`, value })
  }
  const sealed = await asSuperuser<{ value: string }>(
    `select p ->> 'sealed' as value from tenon.services, jsonb_array_elements(auth -> 'providers') p where tenant_id = $1`,
    [workspace.tenantId],
  )
  return [...values, ...sealed.map(({ value }) => ({ of: 'services.auth', value }))]
}

/** As bytes of a member could have it. */
function spellings(value: string | Buffer): Buffer[] {
  const bytes = Buffer.from(value)
  const encoded = (['hex', 'base64', 'base64url'] as const).map((encoding) => bytes.toString(encoding))
  return [bytes, ...encoded.map((text) => Buffer.from(text.replace(/=+$/, '')))]
}

/** Which of the values are in the archive, and in which member. */
const found = (archive: Buffer) =>
  membersOf(archive).flatMap(({ name, content }) =>
    hidden
      .filter(({ value }) => spellings(value).some((bytes) => content.includes(bytes)))
      .map(({ of }) => `${name}: ${of}`),
  )

test('values that are looked for: of every kind of credential, and of every column that holds one', () => {
  const kinds = new Set(hidden.map(({ of }) => of))
  for (const column of [
    ...[
      'api_keys.hash',
      'api_keys.secret',
      'flow_secrets.sealed',
      'webhook_secrets.sealed',
      'users.password',
    ],
    ...['oauth_clients.secret_hash', 'mcp_clients.secret_hash', 'second_factors.sealed', 'accounts.password'],
    ...['user_links.digest', 'services.auth', 'payload_keys.sealed'],
  ])
    expect(kinds).toContain(column)
})

test.each([
  ['workspace', exportArchive],
  ['tenant', exportTenantArchive],
] as const)(
  'archive of a %s, unpacked: no member has a value or a digest of a secret; names are there',
  async (_, make) => {
    const archive = await make(workspace)
    const members = membersOf(archive)
    expect(members.length).toBeGreaterThan(10)
    const text = members.map(({ content }) => content.toString('latin1')).join('\n')
    // What is looked for would be found.
    for (const name of ['TOKEN', 'idp', 's3', 'secret-flow', 'secrets/plan']) expect(text).toContain(name)
    expect(found(archive)).toEqual([])
  },
)
