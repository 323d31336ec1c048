/**
 * Authentication of outgoing requests: credentials are right, are sent only where they belong, and appear in
 * no output.
 */

import { createHmac } from 'node:crypto'
import { ApplicationFailure } from '@temporalio/common'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CallHttpClient } from '../../../src/activities/http/call-http-client.ts'
import { challengesOf, digestAnswer } from '../../../src/activities/http/digest.ts'
import { callHttp } from '../../../src/activities/http/http-call.ts'
import { Tokens } from '../../../src/activities/http/oauth-tokens.ts'
import { Egress } from '../../../src/infra/http-client/egress.ts'
import { MUFASA, NONCE, OPAQUE } from '../../support/clients/digest-verifier.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { threadMs } from '../../support/thread-time.ts'

/** A token that names its issuer. */
const JWT = ['{}', '{"iss":"https://one.example"}', '']
  .map((part) => Buffer.from(part).toString('base64url'))
  .join('.')

let fakeServers: FakeServers
let elsewhere: FakeServers
beforeAll(async () => {
  elsewhere = await FakeServers.open()
  const location = `${elsewhere.origin}/secured`
  fakeServers = await FakeServers.open({
    '/moved': () => ({ status: 302, headers: { location } }),
    '/hang': () => ({ hangs: true }),
    '/no-digest': () => ({ status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } }),
    '/auth-int': () => ({
      status: 401,
      headers: { 'www-authenticate': 'Digest realm="x", nonce="y", qop="auth-int"' },
    }),
    '/oauth2/token/long': () => ({ json: { access_token: 'x'.repeat(9_000) } }),
    '/oauth2/token/untyped': () => ({ json: { access_token: 'x', id_token: 'none', expires_in: null } }),
    '/oauth2/token/strange': () => ({ json: { access_token: 'x', token_type: 'DPoP' } }),
    '/oauth2/token/jwt': () => ({ json: { access_token: JWT, token_type: 'bearer', expires_in: 60 } }),
    '/slash/.well-known/openid-configuration': () => ({
      json: { issuer: `${fakeServers.origin}/slash/`, token_endpoint: `${fakeServers.origin}/realm/token` },
    }),
    '/other/.well-known/openid-configuration': () => ({
      json: { issuer: 'https://other.example', token_endpoint: `${fakeServers.origin}/realm/token` },
    }),
  })
})
afterAll(() => Promise.all([fakeServers.close(), elsewhere.close()]))

let nowMs = 1_000
let tokens = new Tokens(() => nowMs)

const way = (run = 'run-1') => ({
  http: new CallHttpClient(new Egress([]), { allowed: [fakeServers.host, elsewhere.host] }),
  tokens,
  workflowId: run,
})

function send(path: string, authentication: unknown, more: Record<string, unknown> = {}, run?: string) {
  return callHttp(
    { method: 'GET', endpoint: `${fakeServers.origin}${path}`, authentication, ...more },
    way(run),
  )
}

const basic = (username: string, password: string) => ({
  scheme: 'basic',
  properties: { username, password },
})
const bearer = (token: string) => ({ scheme: 'bearer', properties: { token } })
const digest = (password = MUFASA.password) => ({ scheme: 'digest', properties: { ...MUFASA, password } })
const oauth2 = (changes: Record<string, unknown> = {}) => ({
  scheme: 'oauth2',
  properties: {
    authority: fakeServers.origin,
    grant: 'client_credentials',
    client: { id: 'runner', secret: 's3cret' },
    ...changes,
  },
})
const oidc = (authority: string, changes: Record<string, unknown> = {}) => ({
  scheme: 'oidc',
  properties: { ...oauth2().properties, authority, ...changes },
})

/** The failure of the call: the last word of its type, its status and its detail. */
async function failed(work: Promise<unknown>): Promise<{ type: string; status: number; detail: string }> {
  const error = await work.then(
    (value) => new Error(`not refused: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  )
  if (!(error instanceof ApplicationFailure)) throw error
  const [details] = error.details as [{ type: string; status: number; detail: string }]
  expect(error.nonRetryable).toBe(true)
  return { ...details, type: details.type.split('/').at(-1) ?? '' }
}

describe('digest', () => {
  /** RFC 7616 §3.9.1. */
  test.each([
    ['MD5', '8ca523f5e9506fed4657c9700eebdbec'],
    ['SHA-256', '753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1'],
  ])('RFC example: %s: yields the published response', (algorithm, response) => {
    const ask = {
      realm: 'http-auth@example.org',
      qop: 'auth, auth-int',
      algorithm,
      nonce: NONCE,
      opaque: OPAQUE,
    }
    const cnonce = 'f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ'
    const header = digestAnswer(MUFASA, ask, { method: 'GET', uri: '/dir/index.html' }, cnonce)
    expect(header).toContain(`response="${response}"`)
    expect(header).toContain('qop=auth, nc=00000001')
  })

  test.each(['MD5', 'MD5-sess', 'SHA-256', 'SHA-256-sess', 'both'])('%s is verified', async (algorithm) => {
    const path = `/digest/a%20b?algorithm=${algorithm}&x=1`
    expect(await send(path, digest(), { method: 'POST', body: { a: 1 } })).toEqual({ digested: true })
    const [first, second] = fakeServers.requestsTo(path)
    expect(first?.headers.authorization).toBeUndefined()
    expect(second?.body).toBe('{"a":1}')
    if (algorithm === 'both') expect(second?.headers.authorization).toContain('algorithm=SHA-256')
  })

  test('wrong password: is rejected after one attempt', async () => {
    const path = '/digest?wrong'
    expect(await failed(send(path, digest('wrong')))).toMatchObject({ type: 'communication', status: 401 })
    expect(fakeServers.requestsTo(path)).toHaveLength(2)
  })

  test.each(['/no-digest', '/auth-int'])('%s: offers no supported challenge', async (path) => {
    expect(await failed(send(path, digest()))).toMatchObject({ type: 'authentication' })
    expect(fakeServers.requestsTo(path)).toHaveLength(1)
  })

  test('challenges: any valid notation: are parsed', () => {
    expect(challengesOf('')).toEqual([])
    expect(challengesOf('Basic realm="a, Digest b=\\"c\\"" , Negotiate,DIGEST  nonce = x')).toEqual([
      ['basic', { realm: 'a, Digest b="c"' }],
      ['negotiate', {}],
      ['digest', { nonce: 'x' }],
    ])
    const started = threadMs()
    for (const part of [' ', '"', 'a=', 'a="\\', ',', 'a ']) challengesOf(part.repeat(16_384))
    expect(threadMs() - started).toBeLessThan(1_000)
  })
})

describe('basic and bearer', () => {
  test('UTF-8, and a colon in the password', async () => {
    expect(await send('/basic-auth/J%C3%BCrgen/a%3Ab', basic('Jürgen', 'a:b'))).toMatchObject({
      user: 'Jürgen',
    })
  })

  test.each([
    ['a colon in the name', basic('a:b', 'hidden')],
    ['a line break', bearer('hidden\r\nx: y')],
    ['a token that is no text', { scheme: 'bearer', properties: { token: { hidden: 1 } } }],
    ['no password', { scheme: 'basic', properties: { username: 'hidden' } }],
    ['nothing', { scheme: 'digest' }],
  ])('%s: is an authentication error without the credential', async (_name, authentication) => {
    const before = fakeServers.requests.length
    const { type, detail } = await failed(send('/echo', authentication))
    expect(type).toBe('authentication')
    expect(detail).not.toContain('hidden')
    expect(fakeServers.requests).toHaveLength(before)
  })

  test.each([
    ['a secret, of which the run has none', { scheme: 'basic', secret: 'mine' }],
    ['a scheme of nobody', { scheme: 'kerberos', properties: {} }],
    ['no scheme', {}],
  ])('%s: is a configuration error', async (_name, authentication) => {
    expect(await failed(send('/echo', authentication))).toMatchObject({ type: 'configuration' })
  })

  test('URI with credentials: is not called', async () => {
    const endpoint = `http://me:hidden@${fakeServers.host}/echo`
    const { type, detail } = await failed(send('', undefined, { endpoint }))
    expect(type).toBe('configuration')
    expect(detail).not.toContain('hidden')
  })
})

describe('oauth2', () => {
  test('token: is requested once per execution until it expires', async () => {
    tokens = new Tokens(() => nowMs)
    const count = () => fakeServers.requestsTo('/oauth2/token').length
    const before = count()
    expect(await Promise.all([1, 2, 3].map(() => send('/secured', oauth2())))).toHaveLength(3)
    expect(count()).toBe(before + 1)
    expect(await send('/secured', oauth2())).toEqual({ secured: true })
    expect(count()).toBe(before + 1)
    await send('/secured', oauth2(), {}, 'run-2')
    expect(count()).toBe(before + 2)
    await send('/secured', oauth2({ scopes: ['b'] }))
    expect(count()).toBe(before + 3)
    nowMs += 589_000
    await send('/secured', oauth2())
    expect(count()).toBe(before + 3)
    nowMs += 2_000
    await send('/secured', oauth2())
    expect(count()).toBe(before + 4)
  })

  test('token: rejected by the server: is requested once more', async () => {
    await send('/secured', oauth2(), {}, 'revoked')
    fakeServers.tokens.clear()
    expect(await send('/secured', oauth2(), {}, 'revoked')).toEqual({ secured: true })
  })

  test.each([
    ['client_secret_post', {}, {}],
    ['client_secret_basic', {}, {}],
    ['client_secret_jwt', {}, {}],
    ['private_key_jwt', { assertion: 'a.b.c' }, {}],
    ['client_secret_post', {}, { request: { encoding: 'application/json' } }],
    ['client_secret_post', {}, { grant: 'password', username: 'Ada', password: 'p&=+ä', scopes: ['a', 'b'] }],
  ])(
    'token request, %s %j %j: gets a token that the server accepts',
    async (authentication, client, changes) => {
      const own = { id: 'runner', secret: 's3cret', authentication, ...client }
      const settings = oauth2({ client: own, audiences: [], ...changes })
      expect(await send('/secured', settings, {}, authentication + JSON.stringify(changes))).toEqual({
        secured: true,
      })
      const sent = fakeServers.requestsTo('/oauth2/token').at(-1)
      const isBasic = authentication === 'client_secret_basic'
      expect(sent?.headers.authorization !== undefined).toBe(isBasic)
      expect(sent?.body.includes('s3cret')).toBe(authentication === 'client_secret_post')
      const form = new URLSearchParams(sent?.body)
      if ('scopes' in changes) {
        expect(Object.fromEntries(form)).toMatchObject({ password: 'p&=+ä', scope: 'a b', username: 'Ada' })
      }
      if (authentication === 'client_secret_jwt') {
        const [head, claims, signature] = (form.get('client_assertion') ?? '').split('.')
        const wanted = createHmac('sha256', 's3cret').update(`${head}.${claims}`).digest('base64url')
        expect(signature).toBe(wanted)
        expect(JSON.parse(Buffer.from(claims ?? '', 'base64url').toString())).toMatchObject({
          iss: 'runner',
          sub: 'runner',
          aud: `${fakeServers.origin}/oauth2/token`,
        })
      }
    },
  )

  test.each([
    [
      'no secret is taken by the issuer',
      { client: { id: 'runner', authentication: 'none' } },
      'authentication',
    ],
    ['a wrong secret', { client: { id: 'runner', secret: 'hidden' } }, 'authentication'],
    ['a grant that needs a person', { grant: 'authorization_code' }, 'configuration'],
    ['a token of another kind', { endpoints: { token: 'oauth2/token/strange' } }, 'authentication'],
    ['a token of 9,000 letters', { endpoints: { token: 'oauth2/token/long' } }, 'authentication'],
    ['no token endpoint', { endpoints: { token: '/nowhere' } }, 'authentication'],
    ['an authority with credentials', { authority: 'http://a:hidden@x.example' }, 'configuration'],
    ['an authority that is none', { authority: 'x' }, 'configuration'],
    ['no authority', { authority: 7 }, 'authentication'],
    ['a client without a secret', { client: { id: 'runner' } }, 'authentication'],
    [
      'a client authentication of no name',
      { client: { id: 'runner', secret: 'hidden', authentication: 'constructor' } },
      'configuration',
    ],
    ['an empty secret', { client: { id: 'runner', secret: '' } }, 'authentication'],
  ])('%s: is an error, and the request is not sent', async (_name, changes, type) => {
    const before = fakeServers.requestsTo('/secured').length
    const failure = await failed(send('/secured', oauth2(changes), {}, 'refused'))
    expect(failure.type).toBe(type)
    expect(failure.detail).not.toContain('hidden')
    expect(fakeServers.requestsTo('/secured')).toHaveLength(before)
  })

  test('token response without type and lifetime: the token is sent once', async () => {
    const settings = oauth2({ endpoints: { token: 'oauth2/token/untyped' } })
    for (const count of [1, 2]) {
      expect(await send('/echo', settings)).toMatchObject({ headers: { authorization: 'Bearer x' } })
      expect(fakeServers.requestsTo('/oauth2/token/untyped')).toHaveLength(count)
    }
  })

  test.each([
    ['https://one.example', true],
    ['https://two.example', false],
  ])('token that names its issuer: `issuers` has %s: sent %s', async (issuer, isSent) => {
    const settings = oauth2({ endpoints: { token: 'oauth2/token/jwt' }, issuers: [issuer] })
    const answer = send('/echo', settings, {}, issuer)
    if (isSent) expect(await answer).toMatchObject({ headers: { authorization: `Bearer ${JWT}` } })
    else expect(await failed(answer)).toMatchObject({ type: 'authentication' })
  })

  test('several audiences in a JSON request: are one list', async () => {
    const request = { encoding: 'application/json' }
    await send('/secured', oauth2({ audiences: ['600', '601'], request }))
    const sent = fakeServers.requestsTo('/oauth2/token').at(-1)
    expect(sent?.headers['content-type']).toBe('application/json')
    expect(JSON.parse(sent?.body ?? '')).toMatchObject({
      audience: ['600', '601'],
      grant_type: 'client_credentials',
    })
  })

  test('issuer at a forbidden address: gets no credentials', async () => {
    const inside = oauth2({ authority: 'http://169.254.169.254' })
    await expect(send('/secured', inside)).rejects.toMatchObject({ code: 'egress_refused' })
  })
})

describe('oidc', () => {
  test.each(['/realm', '/realm/', '/slash', '/realm/.well-known/openid-configuration'])(
    '%s: is discovered',
    async (path) => {
      const authority = `${fakeServers.origin}${path}`
      expect(await send('/secured', oidc(authority), {}, path)).toEqual({ secured: true })
    },
  )

  test('discovery document of another issuer: that issuer is listed: is accepted', async () => {
    const authority = `${fakeServers.origin}/other`
    expect(await failed(send('/secured', oidc(authority)))).toMatchObject({ type: 'authentication' })
    const named = oidc(authority, { issuers: ['https://other.example'] })
    expect(await send('/secured', named)).toEqual({ secured: true })
  })
})

test('requests of one call: share its time limit', async () => {
  let time = 0
  const line = new CallHttpClient(
    new Egress([fakeServers.host]),
    { allowed: [] },
    { timeoutMs: 30_000, now: () => time },
  )
  const hang = { method: 'GET', url: new URL(`${fakeServers.origin}/hang`), headers: {} }
  await line.send({ ...hang, url: new URL(`${fakeServers.origin}/echo`) })
  time = 29_900
  const elapsedMs = stopwatch()
  await expect(line.send(hang)).rejects.toMatchObject({ code: 'upstream_timeout' })
  await expect(line.withMaxBytes(1).send(hang)).rejects.toMatchObject({ code: 'upstream_timeout' })
  expect(elapsedMs()).toBeLessThan(5_000)
})

describe('output', () => {
  test.each([
    ['basic', () => basic('a', 'hidden')],
    ['bearer', () => bearer('hidden')],
    ['oauth2', () => oauth2()],
  ])('the response of %s: contains the request without credentials', async (_name, authentication) => {
    const headers = { 'X-Api-Key': 'hidden', Cookie: 'hidden', 'X-Trace': 'shown' }
    const more = {
      output: 'response',
      headers,
      endpoint: `${fakeServers.origin}/v2/pet/1?access_token=hidden`,
    }
    const output = (await send('', authentication(), more)) as {
      request: { headers: Record<string, string> }
    }
    expect(output.request.headers).toMatchObject({ 'x-trace': 'shown' })
    expect(output.request.headers).not.toHaveProperty('authorization')
    const sent = fakeServers.requestsTo('/v2/pet/1').at(-1)
    expect(sent?.headers['x-api-key']).toBe('hidden')
    expect(JSON.stringify(output)).not.toMatch(/hidden|s3cret|Bearer|Basic/)
  })

  test('redirect: is returned as the response and not followed', async () => {
    expect(await failed(send('/moved', bearer('x')))).toMatchObject({ status: 302 })
    expect(await send('/moved', bearer('x'), { redirect: true, output: 'response' })).toMatchObject({
      statusCode: 302,
      content: null,
    })
    expect(elsewhere.requests).toEqual([])
  })
})
