/** Builders: every test makes its own tenant through the API, so files run side by side. */

import { randomBytes } from 'node:crypto'
import { importJWK, type JWK, SignJWT } from 'jose'
import { Client } from 'pg'
import { inject } from 'vitest'
import { ApiClient, fetchToken } from '../../src/cli/client.ts'
import { Secrets } from '../../src/platform/secrets.ts'
import type { Running } from './start.ts'

export interface Reply {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape
  readonly body: any
}

export type Caller = Readonly<Record<string, string>>

/** One HTTP call; any status is an answer. A string body is sent as it is. */
export async function call(
  method: string,
  path: string,
  options: { as?: Caller; body?: unknown; headers?: Record<string, string>; at?: Running } = {},
): Promise<Reply> {
  const { as = {}, body, headers = {} } = options
  const { url } = options.at ?? inject('tenon')
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...as, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await read(response)
  const json = text !== '' && /\bjson/.test(response.headers.get('content-type') ?? '')
  return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text }
}

/** A stream of events has no end: its first frame is the answer. */
async function read(response: Response): Promise<string> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response.text()
  const reader = response.body?.getReader()
  const first = await reader?.read()
  await reader?.cancel()
  return new TextDecoder().decode(first?.value)
}

export async function operator(at: Running = inject('tenon')): Promise<Caller> {
  return { authorization: `Bearer ${await fetchToken(at.url, at.clientId, at.clientSecret)}` }
}

export interface Room {
  readonly tenantId: string
  readonly workspaceId: string
  readonly service: Caller
  readonly anon: Caller
  readonly operator: Caller
  /** `/v1/flows/workspaces/<ws>` */
  readonly flows: string
}

export const unique = (prefix: string) => `${prefix}-${randomBytes(5).toString('hex')}`

/**
 * A tenant with one workspace and both kinds of key. It has no bucket: the store of objects reads all its identities
 * anew with each that is made, which hundreds of tests would wait for.
 */
export async function aRoom(at: Running = inject('tenon'), storing = false): Promise<Room> {
  const as = await operator(at)
  const client = new ApiClient(at.url, as)
  const tenant = await client.post<{ id: string }>('/v1/tenants', { name: 'Test', slug: unique('t') }, 30)
  return aWorkspace({ tenantId: tenant.id, operator: as }, at, storing)
}

/** The same with a bucket. */
export const aStoringRoom = (at: Running = inject('tenon')): Promise<Room> => aRoom(at, true)

/** Another workspace of a tenant, with both kinds of key. */
export async function aWorkspace(
  of: { tenantId: string; operator: Caller },
  at: Running = inject('tenon'),
  storing = false,
): Promise<Room> {
  const client = new ApiClient(at.url, of.operator)
  const body = { tenant_id: of.tenantId, name: 'Room', slug: unique('w'), ...(!storing && { bucket: null }) }
  const { id } = await client.post<{ id: string }>('/v1/workspaces', body, 30)
  const key = async (kind: string) =>
    (await client.post<{ key: string }>('/v1/api-keys', { workspace_id: id, kind, name: 'test' })).key
  return {
    tenantId: of.tenantId,
    workspaceId: id,
    service: { apikey: await key('service') },
    anon: { apikey: await key('anon') },
    operator: of.operator,
    flows: `/v1/flows/workspaces/${id}`,
  }
}

/** The same with a bucket. */
export const aStoringWorkspace = (
  of: { tenantId: string; operator: Caller },
  at: Running = inject('tenon'),
): Promise<Room> => aWorkspace(of, at, true)

/** Claims signed with the issuer's own key: what a realm with users of its own would issue. */
export async function tokenOf(
  claims: Record<string, unknown>,
  overrides: TokenOverrides = {},
): Promise<Caller> {
  const { at = inject('tenon') } = overrides
  const jwk = overrides.jwk ?? (await signingKey(at))
  const now = Math.floor(Date.now() / 1_000)
  const token = new SignJWT({ sub: 'user-1', iat: now, exp: now + 600, ...claims })
    .setProtectedHeader({ alg: 'ES256', typ: overrides.typ ?? 'at+jwt', ...(jwk.kid && { kid: jwk.kid }) })
    .setIssuer(overrides.issuer ?? `${at.url}/auth`)
  if (overrides.audience !== null) token.setAudience(overrides.audience ?? `${at.url}/v1`)
  return { authorization: `Bearer ${await token.sign(await importJWK(jwk, 'ES256'))}` }
}

export interface TokenOverrides {
  readonly typ?: string
  readonly issuer?: string
  /** null: the token names none. */
  readonly audience?: string | string[] | null
  readonly jwk?: JWK
  /** Whose issuer signs it. */
  readonly at?: Running
}

async function signingKey(at: Running): Promise<JWK> {
  await operator(at)
  const [row] = await asSuperuser<{ sealed: Buffer }>('select sealed from tenon.signing_keys limit 1', [], at)
  return JSON.parse(new Secrets(at.masterKey).open('signing-key', row?.sealed ?? Buffer.alloc(0)).toString())
}

/** A look behind the walls, which no part of the product can take. */
export async function asSuperuser<T extends object>(
  text: string,
  values: unknown[] = [],
  at: Running = inject('tenon'),
): Promise<T[]> {
  const client = new Client({ connectionString: at.databaseUrl })
  await client.connect()
  try {
    const { rows } = await client.query(text, values)
    return rows as T[]
  } finally {
    await client.end()
  }
}

/** Asks until the answer is right, at most `ms`. */
export async function eventually<T>(ask: () => Promise<T | undefined>, ms = 20_000): Promise<T> {
  const until = Date.now() + ms
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (Date.now() > until) throw new Error(`not within ${ms} ms`)
    await new Promise((done) => setTimeout(done, 50))
  }
}
