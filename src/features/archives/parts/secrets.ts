/** Names secrets, credentials and grants of the installation in an archive, without their values: they are set anew by hand. */

import Type, { type Static } from 'typebox'
import { secretNames } from '../../flows/flows-transfer.ts'
import { accountNames } from '../../identity/accounts/accounts-api.ts'
import { oauthClientNames } from '../../identity/clients/clients-api.ts'
import { keyNames } from '../../identity/keys/key.ts'
import { agentClientNames } from '../../mcp-servers/servers-transfer.ts'
import { quotaNames } from '../../quotas/quotas-api.ts'
import { hostNames } from '../../tenants/settings-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { linesOf, type Part, type Target, type TenantPart, type TenantTarget } from '../part.ts'

const Text = Type.String({ minLength: 1, maxLength: 320 })
const key = (kind: string) => (name: string) => `API key ${name} (${kind}): make a new one`

/** What has to be done, by kind. */
const TO_DO = {
  secret: (name: string) => `secret ${name}: set its value`,
  anon: key('anon'),
  service: key('service'),
  storage: key('storage'),
  machine: (name: string) => `OAuth client ${name} (machine): make a new one`,
  public: (name: string) => `OAuth client ${name} (public): make a new one`,
  mcp_client: (name: string, of = '') => `client ${name} of the MCP server ${of}: make a new one`,
  quota: (name: string) => `quota ${name}: set it`,
  account: (name: string, of = '') => `account ${name} (${of}): invite it again`,
  host: (name: string) => `host name ${name}: claim it, and prove it again`,
} as const
type Kind = keyof typeof TO_DO

interface Named {
  readonly kind: Kind
  readonly name: string
  /** What it belongs to. */
  readonly of?: string
}

const Line = Type.Object(
  { kind: Type.Enum(Object.keys(TO_DO)), name: Text, of: Type.Optional(Text) },
  { additionalProperties: false },
)

const readerOf = <Into extends Target | TenantTarget>() =>
  linesOf<Static<typeof Line>, Into>(jsonOf(Line), {
    store: ({ missing }, line) => {
      const { kind, name, of } = line as Named
      missing(TO_DO[kind](name, of))
    },
  })

export const SECRETS: Part = {
  members: { secrets: readerOf<Target>() },

  async *write(writer, { structure }) {
    const { workspaceId } = structure.ref
    const names = async function* (): AsyncGenerator<Named> {
      for await (const { name } of secretNames(structure)) yield { kind: 'secret', name }
      for await (const { kind, name } of keyNames(structure)) yield { kind, name }
      for await (const { kind, name } of oauthClientNames(structure, workspaceId)) yield { kind, name }
      for await (const { name, server } of agentClientNames(structure))
        yield { kind: 'mcp_client', name, of: server }
      for (const { name } of await quotaNames(structure, workspaceId)) yield { kind: 'quota', name }
      for await (const { host } of hostNames(structure)) yield { kind: 'host', name: host }
    }
    yield* writer.lines('secrets', names())
  },
}

/** Of the tenant as a whole. */
export const TENANT_SECRETS: TenantPart = {
  members: { secrets: readerOf<TenantTarget>() },

  async *write(writer, { tenant }) {
    const names = async function* (): AsyncGenerator<Named> {
      for await (const { email, role } of accountNames(tenant))
        yield { kind: 'account', name: email, of: role }
      for await (const { kind, name } of oauthClientNames(tenant, null)) yield { kind, name }
      for (const { name } of await quotaNames(tenant, '')) yield { kind: 'quota', name }
    }
    yield* writer.lines('secrets', names())
  },
}
