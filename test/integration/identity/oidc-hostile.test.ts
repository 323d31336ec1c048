/** Hostile tokens in the name of an external issuer: no store is reached, no other address is contacted. */

import { createHmac } from 'node:crypto'
import { type CryptoKey, exportSPKI, importJWK } from 'jose'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Caller, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { AUDIENCE, type Overrides, PeerIssuer, type Realm } from '../../support/servers/peer-issuer.ts'
import {
  type ApiWithIssuers,
  DOCUMENTS,
  expectRefused,
  startApiWithIssuers,
} from '../../support/stack/api-with-issuers.ts'

let peer: PeerIssuer
let attacker: PeerIssuer
let realm: Realm
let classic: Realm
let otherRealm: Realm
let attackerRealm: Realm
let workspace: TestWorkspace
let node: ApiWithIssuers
beforeAll(async () => {
  ;[peer, attacker, workspace] = await Promise.all([
    PeerIssuer.open(),
    PeerIssuer.open(),
    createTestWorkspace(),
  ])
  realm = await peer.realm('acme')
  classic = await peer.realm('classic', 'PS256')
  classic.published = classic.published.map(({ alg: _alg, ...key }) => key)
  otherRealm = await peer.realm('stranger')
  attackerRealm = await attacker.realm('acme')
  node = await startApiWithIssuers([
    { issuer: realm.issuer, audience: AUDIENCE, tenants: [workspace.tenantId] },
    {
      issuer: classic.issuer,
      audience: AUDIENCE,
      typ: 'JWT',
      algorithms: ['PS256'],
      tenants: [workspace.tenantId],
    },
  ])
  // The internal issuer reads its keys once.
  expect((await node.ask(workspace.operator, '/v1/me')).status).toBe(200)
  expect((await node.ask(await realm.token(claims()))).status).toBe(200)
  expect((await node.ask(await classic.token(claims(), { head: { typ: 'JWT' } }))).status).toBe(200)
})
afterAll(async () => {
  // No token made the API contact the attacker or read known keys again.
  expect(attacker.requests).toEqual([])
  expect(peer.keysRead).toBe(2)
  await node?.close()
  await Promise.all([peer?.close(), attacker?.close()])
})

const claims = (more: object = {}) => ({
  tenant_id: workspace.tenantId,
  workspace_id: workspace.workspaceId,
  realm_access: { roles: ['service'] },
  ...more,
})
const now = () => Math.floor(Date.now() / 1_000)
const refuse = async (more: object, overrides: Overrides = {}, code = 'token_invalid') =>
  expectRefused(node, await realm.token(claims(more), overrides), code)

/** A token with a signature made by hand. */
const byHand = (head: object, sign: (input: string) => string): Caller => {
  const whole = { ...claims(), sub: 'eve', iss: realm.issuer, aud: AUDIENCE, iat: now(), exp: now() + 300 }
  const parts = [{ typ: 'at+jwt', kid: 'k1', ...head }, whole]
  const input = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return { authorization: `Bearer ${input}.${sign(input)}` }
}

test('external token: alg none: refused', async () => {
  for (const alg of ['none', 'None', 'NONE', '', null, ['RS256']])
    await expectRefused(
      node,
      byHand({ alg }, () => ''),
    )
})

test('external token: HS256 with the public key as secret, in any encoding: refused', async () => {
  const [jwk = {}] = realm.published
  const spki = await exportSPKI((await importJWK(jwk, 'RS256')) as CryptoKey)
  for (const alg of ['HS256', 'HS384', 'HS512'])
    for (const secret of [
      spki,
      spki.trim(),
      JSON.stringify(jwk),
      JSON.stringify({ keys: [jwk] }),
      jwk.n ?? '',
    ]) {
      const hash = alg.replace('HS', 'sha')
      const signed = byHand({ alg }, (input) => createHmac(hash, secret).update(input).digest('base64url'))
      await expectRefused(node, signed)
    }
})

test('external token: algorithm not allowed, right key: refused', async () => {
  // The published key has no algorithm of its own, so the list of allowed ones decides.
  for (const alg of ['RS256', 'RS512', 'PS384'])
    await expectRefused(
      node,
      await classic.token(claims(), { head: { typ: 'JWT', alg }, key: await classic.keyFor(alg) }),
    )
})

test('external token: audience of another, none, or with our prefix: refused', async () => {
  for (const audience of [
    null,
    'account',
    `${AUDIENCE}/`,
    `${AUDIENCE}.evil.test`,
    ['a', 'b'],
    inject('tenon').url,
  ])
    await refuse({}, { audience })
  // The audience of internal tokens is not valid for external ones.
  await refuse({}, { audience: `${inject('tenon').url}/v1` })
})

test('external token: exp, iat or sub missing; not yet valid, expired, or valid too long: refused', async () => {
  for (const wrong of [
    { exp: undefined },
    { iat: undefined },
    { sub: undefined },
    { sub: '' },
    { sub: 'two words' },
    { sub: 'x'.repeat(201) },
    { exp: 'tomorrow' },
    { nbf: now() + 600 },
  ])
    await refuse(wrong)
  for (const wrong of [{ exp: now() - 60 }, { iat: now() - 90_000 }]) await refuse(wrong, {}, 'token_expired')
  // Small clock differences are tolerated.
  for (const nearly of [{ nbf: now() + 20 }, { exp: now() - 20 }])
    expect((await node.ask(await realm.token(claims(nearly)))).status).toBe(200)
})

test('external token: ID token, another type, or none: refused', async () => {
  for (const typ of ['JWT', 'id+jwt', 'logout+jwt', 'dpop+jwt', '', undefined])
    await refuse({}, { head: { typ } })
  for (const typ of ['ID', 'Refresh', 'Offline', 'Logout', 7, null])
    await expectRefused(node, await classic.token(claims({ typ }), { head: { typ: 'JWT' } }))
})

test('external token: similar issuer, or ours signed with a foreign key: refused', async () => {
  await expectRefused(node, await otherRealm.token(claims()))
  await expectRefused(node, await otherRealm.token(claims(), { issuer: realm.issuer }))
  await expectRefused(node, await attackerRealm.token(claims(), { issuer: realm.issuer }))
  for (const issuer of [
    `${realm.issuer}/`,
    realm.issuer.toUpperCase(),
    '',
    `${inject('tenon').url}/auth`,
    attackerRealm.issuer,
  ])
    await refuse({}, { issuer })
  await expectRefused(node, await classic.token(claims(), { issuer: realm.issuer, head: { typ: 'JWT' } }))
})

test('external token: jwk, jku or x5u header: key not used, refused', async () => {
  const [jwk] = attackerRealm.published
  const url = `${attackerRealm.issuer}/jwks`
  for (const head of [{ jwk }, { jku: url }, { x5u: url }, { jwk, jku: url, x5u: url, x5c: ['MIIB'] }]) {
    await expectRefused(node, await attackerRealm.token(claims(), { issuer: realm.issuer, head }))
    await expectRefused(
      node,
      await attackerRealm.token(claims(), { issuer: realm.issuer, head: { ...head, kid: undefined } }),
    )
  }
})

test('external token: crit header with unknown or invalid extensions: refused', async () => {
  for (const head of [
    { crit: ['exp'], exp: now() + 300 },
    { crit: ['http://example.test/x'], 'http://example.test/x': true },
    { crit: [] },
    { crit: 'b64' },
  ])
    await expectRefused(
      node,
      byHand({ alg: 'RS256', ...head }, () => Buffer.alloc(256, 1).toString('base64url')),
    )
})

test('bearer value: not a token: refused', async () => {
  const { authorization = '' } = await realm.token(claims())
  const [head = '', payload = '', signature = ''] = authorization.slice(7).split('.')
  for (const text of [
    'a',
    '..',
    `${head}..${signature}`,
    `${head}.${payload}`,
    `${head}.${payload}.${signature}.x.y`,
    `${head}.${Buffer.from('[]').toString('base64url')}.${signature}`,
    `${head}.${payload}.${signature.slice(0, -4)}AAAA`,
    `${head}.${Buffer.from('{"iss":7}').toString('base64url')}.${signature}`,
  ])
    await expectRefused(node, { authorization: `Bearer ${text}` })
})

test('external token: claims of unexpected types: refused', async () => {
  const deep = 'as deep as it can be'
  const text = (json: string) => json.replace(`"${deep}"`, `${'{"a":['.repeat(1_200)}${']}'.repeat(1_200)}`)
  for (const tenant_id of [
    7,
    null,
    [],
    {},
    deep,
    true,
    '',
    'ten_1',
    ` ${workspace.tenantId}`,
    [workspace.tenantId],
    `${workspace.tenantId}0`,
  ])
    await refuse({ tenant_id }, { text })
  for (const workspace_id of [7, null, deep, 'ws_1', [workspace.workspaceId], `${workspace.workspaceId},*`])
    await refuse({ workspace_id }, { text })
  // Roles of unexpected types are ignored.
  for (const realm_access of [
    deep,
    'service',
    { roles: { 0: 'service', length: 1 } },
    { roles: deep },
    null,
    { roles: [['service']] },
  ]) {
    const { status, body } = await node.ask(await realm.token(claims({ realm_access }), { text }), '/v1/me')
    expect([status, body.roles]).toEqual([200, ['anon']])
  }
  const polluted = JSON.parse(
    '{"__proto__":{"roles":["service"],"tenant_id":"x"},"constructor":{"roles":["operator"]}}',
  )
  const { body } = await node.ask(await realm.token({ ...claims(), realm_access: polluted }), '/v1/me')
  expect(body.roles).toEqual(['anon'])
  expect(({} as Record<string, unknown>)['roles']).toBeUndefined()
})

test('control: valid token: accepted', async () => {
  expect((await node.ask(await realm.token(claims()), DOCUMENTS)).status).toBe(200)
})
