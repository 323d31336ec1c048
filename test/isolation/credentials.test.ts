/** Precedence of credentials: all combinations of one, two and three, on five routes, compared with the model. */

import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { makeKey } from '../../src/access/authentication/credentials.ts'
import { type PublishedMcpServer, publishMcpServer, RPC, scopesOf, tokenFor } from '../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../support/fixtures/tenants.ts'
import { gatewayHeaders, identityHeaders } from '../support/stack/gateway.ts'
import { repeated } from '../support/stack/soak.ts'
import { openCollectionsToAnon } from '../support/stack/workspace-settings.ts'
import { type Carrier, expected, type Presentation, ROUTES, type Route, sets } from './credential-model.ts'

type Presented = { readonly headers: Record<string, string | string[]>; readonly query: string[] }

const agent = new Agent({ keepAlive: true, maxSockets: 4 })
/** The text of each credential. */
let texts: Record<'ours' | 'ours-anon' | 'theirs' | 'theirs-anon' | 'nobody' | 'nobody-anon', string>
let tokens: Record<'api' | 'mcp', Record<'ours' | 'ours-user' | 'theirs' | 'nobody', string>>
let gateways: Record<string, Caller>
let server: PublishedMcpServer
let ours: TestWorkspace
let theirs: TestWorkspace

beforeAll(async () => {
  ;[ours, theirs] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  await Promise.all([ours, theirs].map(openCollectionsToAnon))
  const key = ({ service, anon }: TestWorkspace) => [service['apikey'] ?? '', anon['apikey'] ?? ''] as const
  const [[service, anon], [otherService, otherAnon]] = [key(ours), key(theirs)]
  texts = {
    ...{ ours: service, 'ours-anon': anon, theirs: otherService, 'theirs-anon': otherAnon },
    ...{ nobody: makeKey('service'), 'nobody-anon': makeKey('anon') },
  }
  gateways = {
    ours: gatewayHeaders(ours),
    theirs: gatewayHeaders(theirs),
    nobody: gatewayHeaders({ tenantId: ours.tenantId, workspaceId: theirs.workspaceId }),
    'ours, no secret': identityHeaders(ours),
    'ours, wrong secret': { ...identityHeaders(ours), 'x-gateway-secret': randomUUID() },
  }
  server = await publishMcpServer(ours, 'table')
  const foreign = await publishMcpServer(theirs, 'table')
  for (const workspace of [ours, theirs]) await createMarks(workspace, workspace === ours ? 'ours' : 'theirs')
  const user = tokenText(await userToken(ours, 'mia'))
  tokens = {
    api: {
      ours: await adminOf(ours),
      'ours-user': user,
      theirs: await adminOf(theirs),
      nobody: await adminOf(
        ours,
        await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey),
      ),
    },
    mcp: {
      ours: tokenText(await tokenFor(server, scopesOf(server, 'notes_list'))),
      'ours-user': user,
      theirs: tokenText(await tokenFor(foreign, scopesOf(foreign, 'notes_list'))),
      nobody: 'garbage',
    },
  }
})
afterAll(() => agent.destroy())

const tokenText = (as: Caller) => (as['authorization'] ?? '').slice('Bearer '.length)

async function adminOf({ tenantId: tenant_id, workspaceId: workspace_id }: TestWorkspace, jwk?: object) {
  const claims = { roles: ['tenant_admin', 'service'], tenant_id, workspace_id }
  return tokenText(await tokenOf(claims, jwk && { jwk }))
}

/** Creates a document and events that show the owner in responses. */
async function createMarks({ service: as }: TestWorkspace, ownerIn: string): Promise<void> {
  expect(
    (await call('POST', '/v1/collections/marks/documents', { as, body: { whose: ownerIn } })).status,
  ).toBe(201)
  for (let n = 0; n < 2; n++)
    await call('POST', '/v1/events/publish', { as, body: { topic: 'mark', data: { whose: ownerIn, n } } })
}

const AUTHORIZATION: Partial<Record<Carrier, string>> = {
  'Authorization: ApiKey': 'ApiKey',
  'Authorization: Bearer svc_': 'Bearer',
  'Authorization: Bearer JWT': 'Bearer',
}

function present(route: Route, sent: readonly Presentation[]): Presented {
  const headers: Record<string, string | string[]> = {}
  const query: string[] = []
  for (const { carrier, credential } of sent) {
    const scheme = AUTHORIZATION[carrier]
    const text = carrier.endsWith('JWT')
      ? tokens[route === 'mcp' ? 'mcp' : 'api'][credential as 'ours']
      : texts[credential as 'ours']
    if (carrier === 'gateway') Object.assign(headers, gateways[credential])
    else if (carrier === '?apikey=') query.push(`apikey=${text}`)
    else if (scheme === undefined) headers[carrier] = text
    else headers['authorization'] = [headers['authorization'] ?? [], `${scheme} ${text}`].flat()
  }
  return { headers, query }
}

const PATHS: Record<Route, string> = {
  data: '/v1/collections/marks/documents?',
  admin: '/v1/tenants?',
  me: '/v1/me?',
  events: '/v1/events/subscribe?topic=mark&',
  mcp: '',
}

/** The tenant that the route served, or the problem code. */
function ask(route: Route, { headers, query }: Presented): Promise<string> {
  const mcp = route === 'mcp'
  const path = `${mcp ? `${server.path}?` : PATHS[route]}${query.join('&')}`
  const more = mcp
    ? { ...RPC, 'content-type': 'application/json' }
    : route === 'events'
      ? { 'last-event-id': '0-1' }
      : {}
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'notes_list', arguments: {} },
  })
  return new Promise((done, fail) => {
    const outgoing = request(`${inject('tenon').url}${path}`, {
      method: mcp ? 'POST' : 'GET',
      agent,
      headers: { ...more, ...headers },
    })
    outgoing.once('error', fail).once('response', (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
        // A stream does not end: its first replayed event identifies the owner.
        if (route === 'events' && response.statusCode === 200 && text.includes('"whose"')) {
          done(ownerIn(text))
          outgoing.destroy()
        }
      })
      response.once('error', () => {})
      response.once('end', () => done(response.statusCode === 200 ? ownerIn(text) : JSON.parse(text).code))
    })
    outgoing.end(mcp ? body : undefined)
  })
}

/** The owner that shows in a response, or both. */
function ownerIn(text: string): string {
  const signs = {
    ours: ['"whose":"ours"', ours.tenantId, 'hello'],
    theirs: ['"whose":"theirs"', theirs.tenantId],
  }
  const found = Object.entries(signs).filter(([, signsOfOwner]) =>
    signsOfOwner.some((mark) => text.includes(mark)),
  )
  return found.map(([name]) => name).join(' and ') || text
}

test.each(ROUTES.flatMap((route) => [1, 2, 3].map((size) => [route, size] as const)))(
  '%s route with %i credentials: accepted or refused as the model says',
  async (route, size) => {
    const wrong: string[] = []
    // Of the sets of three, every seventh is tested by default.
    const all = sets(size).filter((_, n) => size < 3 || n % repeated(7, 1) === 0)
    let next = 0
    const worker = async () => {
      for (let sent = all[next++]; sent !== undefined; sent = all[next++]) {
        const [is, ought] = [await ask(route, present(route, sent)), expected(route, sent)]
        if (is !== ought)
          wrong.push(
            `${sent.map(({ carrier, credential }) => `${carrier} ${credential}`).join(' + ')}: ${is}, not ${ought}`,
          )
      }
    }
    await Promise.all([worker(), worker(), worker(), worker()])
    expect(wrong.slice(0, 20)).toEqual([])
    expect(all.length).toBeGreaterThan(20)
  },
)

test('model: produces every possible outcome', () => {
  const answers = new Set(
    ROUTES.flatMap((route) => [1, 2, 3].flatMap((size) => sets(size).map((sent) => expected(route, sent)))),
  )
  expect([...answers].sort()).toEqual([
    'anon_key_in_query',
    'api_key_invalid',
    'credentials_conflict',
    'credentials_missing',
    'forbidden',
    'gateway_identity_invalid',
    'ours',
    'privilege_domain_mismatch',
    'service_key_in_query',
    'theirs',
    'token_invalid',
  ])
})
