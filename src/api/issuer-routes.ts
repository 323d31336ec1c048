/** The issuer on HTTP: what the provider answers itself, and the pages where people sign in. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AuthServices } from '../access/authentication/auth-services.ts'
import { hasValidLength } from '../access/issuer/accounts-store.ts'
import type { Requester } from '../access/issuer/audit-events.ts'
import type { EmbeddedIssuer } from '../access/issuer/embedded-issuer.ts'
import {
  consentPage,
  invitationPage,
  loginPage,
  type Page,
  passwordPage,
  plainPage,
  refusalText,
} from '../access/issuer/pages.ts'
import type { InteractionRequest } from '../access/issuer/sign-in.ts'
import { networkOf } from '../access/rate-limit/memory-buckets.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import { toWire } from './problems.ts'

/** What the provider is asked; the rest of its routes is not offered. */
const OFFERED =
  /^\/auth\/(token|jwks|revoke|authorize(\/[\w-]+)?|session\/end\/confirm|\.well-known\/(openid-configuration|oauth-authorization-server))(\?|$)/

export async function mountIssuer(app: FastifyInstance, identity: AuthServices['identity']): Promise<void> {
  await app.register(async (issuer) => {
    issuer.addHook('onRequest', (request, reply, done) => {
      limitBody(request, reply)
      done()
    })
    await issuer.register(async (auth) => mountProvider(auth, identity))
    await issuer.register(async (pages) => mountPages(pages, identity))
    mountRegistration(issuer, identity)
  })
}

/** Ends a request whose body is not complete in time: it holds a connection although it showed no credential. */
function limitBody(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request
  const end = () => {
    if (raw.complete || raw.destroyed) return
    const detail = `The body took longer than ${LIMITS.issuerBodyMs} ms.`
    const path = request.url.split('?')[0] ?? ''
    const { status, headers, body } = toWire(new Problem('body_incomplete', { detail }), {
      id: request.id,
      path,
    })
    // Whatever reads the body meanwhile finds it cut off, and must not answer as well.
    reply.hijack()
    if (!reply.raw.headersSent) reply.raw.writeHead(status, { ...headers, connection: 'close' })
    reply.raw.end(JSON.stringify(body))
    raw.socket.destroySoon()
  }
  const timer = setTimeout(end, LIMITS.issuerBodyMs)
  raw.once('end', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
}

/** The provider reads its own bodies and writes its own replies; only the request id is ours. */
function mountProvider(app: FastifyInstance, identity: AuthServices['identity']): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.all('/auth/*', async (request, reply) => {
    if (!OFFERED.test(request.url)) throw new Problem('route_not_found')
    const issuer = await identity()
    reply.raw.setHeader('x-request-id', request.id)
    reply.hijack()
    await issuer.handle(
      request.raw,
      reply.raw,
      // In the path alone: the query belongs to the client, its `state` above all.
      request.url.replace(/^([^?]*)oauth-authorization-server/, '$1openid-configuration'),
      requesterOf(request),
    )
  })
}

function mountPages(app: FastifyInstance, identity: AuthServices['identity']): void {
  readForms(app)
  const path = '/auth/interaction/:uid'
  app.get(path, async (request, reply) => {
    const { signIn } = await identity()
    return show(reply, await asked(signIn.ask(exchangeOf(request, reply))))
  })
  app.post(path, async (request, reply) => {
    const issuer = await identity()
    rejectCrossSite(request, issuer.origin)
    return answer(issuer, request, reply)
  })
  app.get('/auth/invitation', async (request, reply) =>
    show(reply, await invitation(await identity(), tokenOf(request))),
  )
  app.post('/auth/invitation', async (request, reply) => {
    const issuer = await identity()
    rejectCrossSite(request, issuer.origin)
    return show(reply, await accept(issuer, request))
  })
  app.get('/auth/password', async (_request, reply) => show(reply, passwordPage()))
  app.post('/auth/password', async (request, reply) => {
    const issuer = await identity()
    rejectCrossSite(request, issuer.origin)
    return show(reply, await changed(issuer, request))
  })
}

/** RFC 7591. Any page may ask: what it gets is an id that opens nothing by itself. */
function mountRegistration(app: FastifyInstance, identity: AuthServices['identity']): void {
  const path = '/auth/register'
  const open = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' }
  app.options(path, async (_request, reply) =>
    reply
      .code(204)
      .headers({
        ...open,
        'access-control-allow-methods': 'POST',
        'access-control-allow-headers': 'content-type',
      })
      .send(),
  )
  app.post(path, { bodyLimit: LIMITS.registrationBytesMax }, async (request, reply) => {
    const { registration, audit: records } = await identity()
    const { status, body } = await registration.register(request.body, networkOf(request.ip))
    records.registered(requesterOf(request), status, body)
    return reply.code(status).headers(open).send(body)
  })
}

async function answer(
  issuer: EmbeddedIssuer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { signIn } = issuer
  const exchange = exchangeOf(request, reply)
  const { action, tenant = '', email = '', password = '' } = formOf(request)
  if (action === 'login') {
    const credentials = {
      tenant: tenant.trim(),
      email: email.trim(),
      password,
      network: networkOf(request.ip),
    }
    const attempt = await undefinedIfExpired(() => signIn.login(exchange, credentials))
    if (attempt === undefined) return show(reply, EXPIRED)
    if ('redirect' in attempt) return reply.redirect(attempt.redirect, 303)
    return show(reply, loginPage(await signIn.ask(exchange), attempt.refused))
  }
  if (action !== 'allow' && action !== 'deny' && action !== 'leave') throw new Problem('request_malformed')
  const next = await undefinedIfExpired(() => signIn[action](exchange))
  return next === undefined ? show(reply, EXPIRED) : reply.redirect(next, 303)
}

async function asked(question: ReturnType<EmbeddedIssuer['signIn']['ask']>): Promise<Page> {
  const found = await undefinedIfExpired(() => question)
  if (found === undefined) return EXPIRED
  return found.kind === 'login' ? loginPage(found) : consentPage(found)
}

const EXPIRED = plainPage('This sign-in is over', 'Go back to where you began it, and begin again.', 404)
const NO_INVITATION = plainPage(
  'This invitation is not valid',
  'It was used already, or it has run out. Ask for a new one.',
  404,
)

/** undefined where no sign-in is under way in this browser. */
async function undefinedIfExpired<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Problem && error.code === 'not_found') return undefined
    throw error
  }
}

async function invitation({ people }: EmbeddedIssuer, token: string): Promise<Page> {
  const email = await people.invited(token)
  return email === undefined ? NO_INVITATION : invitationPage(email)
}

async function accept({ people, audit: records }: EmbeddedIssuer, request: FastifyRequest): Promise<Page> {
  const token = tokenOf(request)
  const email = await people.invited(token)
  if (email === undefined) return NO_INVITATION
  const form = formOf(request)
  const fault = faultOf(form)
  if (fault !== undefined) return invitationPage(email, fault)
  const account = await people.accept(token, form['password'] ?? '')
  if (account === undefined) return NO_INVITATION
  records.passwordSet(requesterOf(request), account)
  return plainPage(
    'Your password is set',
    'You can close this page and sign in where you were asked to.',
    200,
  )
}

/** Changes a password for the person who knows the present one. */
async function changed({ signIn }: EmbeddedIssuer, request: FastifyRequest): Promise<Page> {
  const form = formOf(request)
  const fault = faultOf(form)
  if (fault !== undefined) return passwordPage({ status: 400, text: fault })
  const { tenant = '', email = '', current = '', password = '' } = form
  const network = networkOf(request.ip)
  const credentials = { tenant: tenant.trim(), email: email.trim(), password: current, network }
  const outcome = await signIn.change(requesterOf(request), credentials, password)
  if (outcome !== 'changed')
    return passwordPage({ status: outcome === 'wrong' ? 401 : 429, text: refusalText(outcome) })
  return plainPage(
    'Your password is changed',
    'All sessions have ended: sign in again with the new one.',
    200,
  )
}

/** What is wrong with a new password, if anything is. */
function faultOf({ password = '', again = '' }: Form): string | undefined {
  const { passwordCharsMin: least, passwordCharsMax: most } = LIMITS
  if (password !== again) return 'The two are not the same.'
  return hasValidLength(password) ? undefined : `A password has ${least} to ${most} characters.`
}

const exchangeOf = (request: FastifyRequest, reply: FastifyReply): InteractionRequest => ({
  request: request.raw,
  response: reply.raw,
  uid: (request.params as { uid: string }).uid,
  by: requesterOf(request),
})

const requesterOf = ({ ip, id }: FastifyRequest): Requester => ({ address: ip, requestId: id })

/** It stands in the query, which no log line has. */
function tokenOf({ query }: FastifyRequest): string {
  const { token } = query as { token?: unknown }
  return typeof token === 'string' ? token : ''
}

const FORM_BYTES_MAX = 8_192

export type Form = Readonly<Record<string, string>>

/** The routes of this part take forms and nothing else. */
export function readForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: FORM_BYTES_MAX },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  )
}

/**
 * Cookies are not sent from other sites (SameSite); browsers say besides whence a form comes. From a page that has the
 * referrer policy of ours, the origin is `null`.
 * @param origin our own
 * @throws Problem `forbidden`
 */
export function rejectCrossSite({ headers }: FastifyRequest, origin: string): void {
  const site = headers['sec-fetch-site']
  const foreign = headers.origin !== undefined && headers.origin !== origin && headers.origin !== 'null'
  if (foreign || (site !== undefined && site !== 'same-origin' && site !== 'none'))
    throw new Problem('forbidden', { detail: 'This form comes from another site.' })
}

export const formOf = ({ body }: FastifyRequest): Form => (body ?? {}) as Form

export const show = (reply: FastifyReply, { status, headers, html }: Page) =>
  reply.code(status).headers(headers).send(html)
