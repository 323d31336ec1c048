/** Knows how a token is asked for: where, by which grant, and how the client says who it is (RFC 6749, RFC 7523). */

import { SignJWT } from 'jose'
import { LIMITS } from '../core/limits.ts'
import type { Outbound } from '../platform/egress.ts'
import { callFailure } from './call-failure.ts'
import { type Fields, fieldsOf, jsonOf, textOf } from './http-auth-fields.ts'
import type { Line } from './line.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** `oauth2` says it, below its authority; `oidc` has it in the authority's discovery document. */
export async function tokenEndpoint(scheme: 'oauth2' | 'oidc', given: Fields, line: Line): Promise<URL> {
  const authority = textOf(given, 'authority', scheme)
  if (scheme === 'oidc') return discovered(authority, given, line)
  const { token = '/oauth2/token' } = fieldsOf(given['endpoints'])
  const path = String(token)
  if (/^https?:/i.test(path)) return urlOf(path, '`endpoints.token`')
  return urlOf(`${authority.replace(/\/+$/, '')}/${path.replace(/^\/+/, '')}`, '`authority`')
}

/** OpenID Connect Discovery 1.0 §4: the document must be of the issuer that was asked, or of one that is named. */
async function discovered(authority: string, given: Fields, line: Line): Promise<URL> {
  const asked = authority.endsWith(DISCOVERY) ? authority.slice(0, -DISCOVERY.length) : authority
  const url = urlOf(`${asked.replace(/\/+$/, '')}${DISCOVERY}`, '`authority`')
  const headers = { accept: 'application/json' }
  const { status, body } = await line.send({ method: 'GET', url, headers }, LIMITS.tokenAnswerBytesMax)
  if (status !== 200) {
    throw callFailure('communication', `The discovery of \`oidc\` answered ${status}.`, { status })
  }
  const { issuer, token_endpoint: endpoint } = jsonOf(body) ?? {}
  const issuers: unknown[] = Array.isArray(given['issuers']) ? given['issuers'] : []
  const isOne = typeof issuer === 'string' && issuer.replace(/\/+$/, '') === asked.replace(/\/+$/, '')
  if (!isOne && !issuers.includes(issuer)) {
    throw callFailure('authentication', 'The discovery document of `oidc` is of another issuer.')
  }
  if (typeof endpoint !== 'string') {
    throw callFailure('authentication', 'The discovery document of `oidc` names no token endpoint.')
  }
  return urlOf(endpoint, 'The token endpoint')
}

function urlOf(text: string, what: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url !== undefined && url.username === '' && url.password === '') return url
  throw callFailure('configuration', `${what} must be an absolute URI without credentials.`)
}

/** The request at the token endpoint (RFC 6749 §4.3.2, §4.4.2). */
export async function tokenRequest(scheme: string, given: Fields, endpoint: URL): Promise<Outbound> {
  const client = await clientOf(scheme, given, endpoint)
  const pairs = [...grantOf(scheme, given), ...scopeOf(given), ...audiencesOf(given), ...client.pairs]
  const { encoding = 'application/x-www-form-urlencoded' } = fieldsOf(given['request'])
  const type = String(encoding)
  const headers = { accept: 'application/json', 'content-type': type, ...client.headers }
  const body = type === 'application/json' ? jsonBody(pairs) : new URLSearchParams(pairs).toString()
  return { method: 'POST', url: endpoint, headers, body }
}

type Pairs = [name: string, value: string][]

function grantOf(scheme: string, given: Fields): Pairs {
  const grant = textOf(given, 'grant', scheme)
  if (grant === 'client_credentials') return [['grant_type', grant]]
  if (grant !== 'password') {
    const detail = `The grant \`${grant}\` is not supported here; use \`client_credentials\` or \`password\`.`
    throw callFailure('configuration', detail)
  }
  return [
    ['grant_type', grant],
    ['username', textOf(given, 'username', scheme)],
    ['password', textOf(given, 'password', scheme)],
  ]
}

function scopeOf({ scopes }: Fields): Pairs {
  return Array.isArray(scopes) && scopes.length > 0 ? [['scope', scopes.join(' ')]] : []
}

/** As in RFC 8693 §2.1: one parameter for each. */
function audiencesOf({ audiences }: Fields): Pairs {
  return Array.isArray(audiences) ? audiences.map((audience) => ['audience', String(audience)]) : []
}

/** How the client authenticates (OWS 1.0: `client_secret_post` where nothing is said). */
async function clientOf(
  scheme: string,
  given: Fields,
  endpoint: URL,
): Promise<{ readonly pairs: Pairs; readonly headers?: Readonly<Record<string, string>> }> {
  const client = fieldsOf(given['client'])
  const { authentication = 'client_secret_post', id } = client
  const named: Pairs = typeof id === 'string' ? [['client_id', id]] : []
  if (authentication === 'none') return { pairs: named }
  const text = (name: string) => textOf(client, name, `client\` of \`${scheme}`)
  if (authentication === 'client_secret_post') {
    return {
      pairs: [
        ['client_id', text('id')],
        ['client_secret', text('secret')],
      ],
    }
  }
  if (authentication === 'client_secret_basic') {
    const pair = `${formEncoded(text('id'))}:${formEncoded(text('secret'))}`
    return { pairs: [], headers: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` } }
  }
  if (authentication !== 'client_secret_jwt' && authentication !== 'private_key_jwt') {
    throw callFailure('configuration', `There is no client authentication \`${String(authentication)}\`.`)
  }
  const isOwn = authentication === 'client_secret_jwt'
  const assertion = isOwn ? await assertionOf(text('id'), text('secret'), endpoint) : text('assertion')
  return { pairs: [...named, ['client_assertion_type', ASSERTION], ['client_assertion', assertion]] }
}

/** RFC 7523 §3, signed with the secret (OpenID Connect Core 1.0 §9). */
function assertionOf(id: string, secret: string, endpoint: URL): Promise<string> {
  return new SignJWT()
    .setProtectedHeader({ alg: 'HS256' })
    .setIssuer(id)
    .setSubject(id)
    .setAudience(endpoint.href)
    .setJti(crypto.randomUUID())
    .setIssuedAt()
    .setExpirationTime('60s')
    .sign(Buffer.from(secret))
}

/** RFC 6749 §2.3.1 wants the form's encoding within the header. */
const formEncoded = (text: string) => new URLSearchParams([['', text]]).toString().slice(1)

/** A name that comes more than once has a list. */
function jsonBody(pairs: Pairs): string {
  const body: Record<string, unknown> = Object.create(null)
  for (const [name, value] of pairs) {
    const before = body[name]
    body[name] = before === undefined ? value : [before, value].flat()
  }
  return JSON.stringify(body)
}
