/** Creates two tenants through the public interface, and checks that neither affected the other. */

import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { Caller, expectAlive, expectStatus, list, str, Transcript, token } from './client.ts'

/** A tenant with a workspace, two keys and everything ever sent to it. */
export interface Party {
  readonly tenant: string
  readonly workspace: string
  readonly bucket: string
  /** Part of everything this tenant stores, and of nothing that others send. */
  readonly mark: string
  readonly anonKey: string
  readonly serviceKey: string
  readonly anon: Caller
  readonly service: Caller
  /** The operator, acting in this tenant. */
  readonly admin: Caller
  readonly transcript: Transcript
}

export interface World {
  readonly a: Party
  readonly b: Party
  readonly admin: Caller
  readonly before: unknown[]
}

async function operator(transcript = new Transcript()): Promise<Caller> {
  return new Caller({ authorization: `Bearer ${await token()}` }, transcript)
}

export function word(): string {
  return randomBytes(6).toString('hex')
}

const WAIT = { prefer: 'wait=30' }

async function makeTenant(admin: Caller, mark: string): Promise<string> {
  const made = await admin.post('/v1/tenants', { name: `Tenant ${mark}`, slug: `t-${mark}` }, WAIT)
  expectStatus(made, 201)
  return str(made, 'id')
}

/** @param more further fields of the body: `bucket` */
async function makeWorkspace(
  admin: Caller,
  tenant: string,
  slug: string,
  more: Record<string, unknown> = {},
): Promise<string> {
  const body = { tenant_id: tenant, name: `Workspace ${slug}`, slug, ...more }
  const made = await admin.post('/v1/workspaces', body, WAIT)
  expectStatus(made, 201)
  return str(made, 'id')
}

export async function makeKey(admin: Caller, workspace: string, kind: 'anon' | 'service'): Promise<string> {
  const made = await admin.post('/v1/api-keys', {
    workspace_id: workspace,
    kind,
    name: `${kind} for tests`,
  })
  expectStatus(made, 201)
  return str(made, 'key')
}

interface PairOptions {
  /** True if each workspace has a bucket. */
  readonly stores?: boolean
  /** True if anon keys of the workspaces read undeclared collections, and collections declared without `access`. */
  readonly anonReads?: boolean
}

async function makeParty(mark: string, { stores = false, anonReads = false }: PairOptions): Promise<Party> {
  const transcript = new Transcript()
  const admin = await operator(transcript)
  const tenant = await makeTenant(admin, mark)
  const bucket = `test-${mark}`
  const workspace = await makeWorkspace(admin, tenant, `w-${mark}`, { bucket: stores ? bucket : null })
  const open = { workspace_id: workspace, anon: { collections: 'read' } }
  if (anonReads) expectStatus(await admin.post('/v1/services/configure', open), 200)
  const [anonKey, serviceKey] = [
    await makeKey(admin, workspace, 'anon'),
    await makeKey(admin, workspace, 'service'),
  ]
  const anon = new Caller({ apikey: anonKey }, transcript)
  const service = new Caller({ apikey: serviceKey }, transcript)
  return { tenant, workspace, bucket, mark, anonKey, serviceKey, anon, service, admin, transcript }
}

/** Two tenants; the second has written three documents that have to stay unchanged. */
export async function createTenantPair(options: PairOptions = {}): Promise<World> {
  const [a, b] = [await makeParty(`aa${word()}`, options), await makeParty(`bb${word()}`, options)]
  for (const text of ['one', 'two', 'three']) {
    expectStatus(await b.service.post('/v1/collections/keepsakes/documents', { text, mark: b.mark }), 201)
  }
  return { a, b, admin: await operator(), before: await keptDocuments(b) }
}

async function keptDocuments(party: Party): Promise<unknown[]> {
  const reply = await party.service.get('/v1/collections/keepsakes/documents')
  expectStatus(reply, 200)
  return list(reply)
}

/** The platform responds and the other tenant finds its data unchanged. */
export async function expectUnaffected(world: World): Promise<void> {
  await expectAlive()
  expect(await keptDocuments(world.b)).toEqual(world.before)
}

/**
 * Nothing of A ever reached B: neither its marked data nor its keys.
 * @param named what B itself named in its requests, since a problem repeats it
 */
export async function expectIsolated(world: World, ...named: string[]): Promise<void> {
  await expectUnaffected(world)
  let received = world.b.transcript.received.join('\n')
  for (const word of named) received = received.replaceAll(word, '')
  expect(received.length).toBeGreaterThan(0)
  expect(received).toContain(world.b.mark)
  for (const secret of [world.a.mark, world.a.anonKey, world.a.serviceKey]) {
    expect(received.includes(secret), `B received ${secret}`).toBe(false)
  }
}
