/** Administrators for the public API tests: machine clients of the embedded issuer with one role each. */

import { Caller, expectStatus, type Reply, send, str } from './client.ts'
import { type Party, type World, word } from './tenant-pair.ts'

export type Role = 'operator' | 'tenant_admin' | 'workspace_admin' | 'service'

export interface Machine {
  readonly id: string
  readonly secret: string
}

/** The fields that say where a role applies. */
function placeOf({ tenant, workspace }: Pick<Party, 'tenant' | 'workspace'>, role: Role) {
  if (role === 'operator') return {}
  return role === 'tenant_admin' ? { tenant_id: tenant } : { workspace_id: workspace }
}

/** An OAuth client of kind `machine`, created by the operator. */
export async function makeMachine(
  { admin }: Pick<World, 'admin'>,
  party: Pick<Party, 'tenant' | 'workspace'>,
  role: Role,
): Promise<Machine> {
  const sent = { kind: 'machine', name: `test ${word()}`, role, ...placeOf(party, role) }
  const made = await admin.post('/v1/oauth-clients', sent)
  expectStatus(made, 201)
  return { id: str(made, 'client_id'), secret: str(made, 'client_secret') }
}

/** Requests an access token by client credentials (RFC 6749 §4.4). */
export function askToken({ id, secret }: Machine, extra: Record<string, string> = {}): Promise<Reply> {
  const basic = Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')
  return send('POST', '/auth/token', {
    raw: new URLSearchParams({ grant_type: 'client_credentials', ...extra }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', authorization: `Basic ${basic}` },
  })
}

/** A caller with one role in one tenant or workspace. */
export async function machine(
  world: Pick<World, 'admin'>,
  party: Pick<Party, 'tenant' | 'workspace'> & Partial<Pick<Party, 'transcript'>>,
  role: Role,
): Promise<Caller> {
  const reply = await askToken(await makeMachine(world, party, role))
  expectStatus(reply, 200)
  return new Caller({ authorization: `Bearer ${str(reply, 'access_token')}` }, party.transcript)
}
