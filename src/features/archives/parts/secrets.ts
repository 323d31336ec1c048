/** What an archive only names: secrets, credentials and what the installation grants. It is set, or made, anew by hand. */

import Type from 'typebox'
import { secretNames } from '../../flows/flows-transfer.ts'
import { oauthClientNames } from '../../identity/clients/clients-api.ts'
import { keyNames } from '../../identity/keys/key.ts'
import { agentClientNames } from '../../mcp-servers/servers-transfer.ts'
import { quotaNames } from '../../quotas/quotas-api.ts'
import { hostNames } from '../../tenants/settings-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { linesOf, type Part } from '../part.ts'

const Text = Type.String({ minLength: 1, maxLength: 260 })
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
  host: (name: string) => `host name ${name}: claim it, and prove it again`,
} as const
type Kind = keyof typeof TO_DO

interface Named {
  readonly kind: Kind
  readonly name: string
  /** What it belongs to. */
  readonly of?: string
}

const readLine = jsonOf(
  Type.Object(
    { kind: Type.Enum(Object.keys(TO_DO)), name: Text, of: Type.Optional(Text) },
    { additionalProperties: false },
  ),
)

export const SECRETS: Part = {
  members: {
    secrets: linesOf(readLine, {
      store: ({ missing }, line) => {
        const { kind, name, of } = line as Named
        missing(TO_DO[kind](name, of))
      },
    }),
  },

  async *write(writer, { structure }) {
    const names = async function* (): AsyncGenerator<Named> {
      for await (const { name } of secretNames(structure)) yield { kind: 'secret', name }
      for await (const { kind, name } of keyNames(structure)) yield { kind, name }
      for await (const { kind, name } of oauthClientNames(structure)) yield { kind, name }
      for await (const { name, server } of agentClientNames(structure))
        yield { kind: 'mcp_client', name, of: server }
      for (const { name } of await quotaNames(structure)) yield { kind: 'quota', name }
      for await (const { host } of hostNames(structure)) yield { kind: 'host', name: host }
    }
    yield* writer.lines('secrets', names())
  },
}
