/** Mounts the embedded issuer: the routes of the OAuth provider, and the pages for sign-in, invitations and passwords. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Access } from '../../access/access.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import { Problem } from '../../core/problem.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import {
  consentPage,
  invitationPage,
  LOGIN_ERRORS,
  NEEDS_ACCOUNT_PAGE,
  type Page,
  passwordPage,
  plainPage,
} from '../../features/identity/pages/pages.ts'
import { API_LIMITS } from '../limits.ts'
import { toReply } from '../problems.ts'
import { mountAccountPages } from './account-pages.ts'
import { mountAgentsPage } from './agent-routes.ts'
import {
  credentialsIn,
  formOf,
  passwordError,
  readForms,
  rejectCrossSite,
  requesterOf,
  show,
  tokenOf,
} from './forms.ts'
import { EXPIRED, interactionOf, interactionPath, undefinedIfExpired } from './interaction.ts'
import { enterPassword, isUserPrompt, signInPage } from './interaction-sign-in.ts'
import { mountUserPages, openUserPrompt } from './user-routes.ts'

/** Routes that the provider handles; its others are not offered. */
const PROVIDER_ROUTES =
  /^\/auth\/(token|jwks|revoke|authorize(\/[\w-]+)?|\.well-known\/(openid-configuration|oauth-authorization-server))(\?|$)/

export async function mountIssuer(
  app: FastifyInstance,
  services: AuthServices,
  access: Access,
): Promise<void> {
  const { identity } = services
  await app.register(async (issuer) => {
    issuer.addHook('onRequest', (request, reply, done) => {
      limitBody(request, reply)
      done()
    })
    await issuer.register(async (auth) => mountProvider(auth, identity))
    await issuer.register(async (pages) => {
      readForms(pages)
      mountPages(pages, identity)
      mountUserPages(pages, services)
      mountAccountPages(pages, services, access)
      mountAgentsPage(pages, services)
    })
    mountRegistration(issuer, identity)
  })
}

/** Ends a request whose body is not complete in time, since it holds a connection without a credential. */
function limitBody(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request
  const end = () => {
    if (raw.complete || raw.destroyed) return
    const detail = `The body took longer than ${API_LIMITS.issuerBodyMs} ms.`
    const at = { id: request.id, path: request.url.split('?')[0] ?? '' }
    const { status, headers, body } = toReply(new Problem('body_incomplete', { detail }), at)
    // The reader of the body sees it truncated, and must not reply as well.
    reply.hijack()
    if (!reply.raw.headersSent) reply.raw.writeHead(status, { ...headers, connection: 'close' })
    reply.raw.end(JSON.stringify(body))
    raw.socket.destroySoon()
  }
  const timer = setTimeout(end, API_LIMITS.issuerBodyMs)
  raw.once('end', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
}

/** The provider reads bodies and writes replies itself; only the request id is added. */
function mountProvider(app: FastifyInstance, identity: AuthServices['identity']): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.all('/auth/*', async (request, reply) => {
    if (!PROVIDER_ROUTES.test(request.url)) throw new Problem('route_not_found')
    const issuer = await identity()
    reply.raw.setHeader('x-request-id', request.id)
    reply.hijack()
    await issuer.handle(
      request.raw,
      reply.raw,
      // In the path only: the query, with its `state`, belongs to the client.
      request.url.replace(/^([^?]*)oauth-authorization-server/, '$1openid-configuration'),
      requesterOf(request),
    )
  })
}

function mountPages(app: FastifyInstance, identity: AuthServices['identity']): void {
  type Handler = (issuer: EmbeddedIssuer, request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
  const get = (path: string, handler: Handler) =>
    app.get(path, async (request, reply) => handler(await identity(), request, reply))
  const post = (path: string, handler: Handler) =>
    app.post(path, async (request, reply) => {
      const issuer = await identity()
      rejectCrossSite(request, issuer.origin)
      return handler(issuer, request, reply)
    })
  get('/auth/interaction/:uid', async (issuer, request, reply) => {
    const prompt = await undefinedIfExpired(issuer.signIn.ask(interactionOf(request, reply)))
    if (prompt === undefined) return show(reply, EXPIRED)
    if (isUserPrompt(prompt)) return openUserPrompt(issuer, prompt, request, reply)
    const path = interactionPath(request)
    return show(reply, prompt.kind === 'login' ? signInPage(issuer, prompt, path) : consentPage(prompt))
  })
  post('/auth/interaction/:uid', submitInteraction)
  get('/auth/invitation', async ({ accounts }, request, reply) => {
    const email = await accounts.invited(tokenOf(request))
    return show(reply, email === undefined ? INVALID_INVITATION : invitationPage(email))
  })
  post('/auth/invitation', async (issuer, request, reply) =>
    show(reply, await acceptInvitation(issuer, request)),
  )
  get('/auth/password', async (_issuer, _request, reply) => show(reply, passwordPage()))
  post('/auth/password', async (issuer, request, reply) => show(reply, await changePassword(issuer, request)))
}

/** Dynamic client registration (RFC 7591), open to pages of any origin: the id that they get opens nothing by itself. */
function mountRegistration(app: FastifyInstance, identity: AuthServices['identity']): void {
  const path = '/auth/register'
  const open = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' }
  const allowed = { 'access-control-allow-methods': 'POST', 'access-control-allow-headers': 'content-type' }
  app.options(path, async (_request, reply) =>
    reply
      .code(204)
      .headers({ ...open, ...allowed })
      .send(),
  )
  app.post(path, { bodyLimit: API_LIMITS.registrationBytesMax }, async (request, reply) => {
    const { registration, audit: records } = await identity()
    const { status, body } = await registration.register(request.body, networkOf(request.ip))
    records.registered(requesterOf(request), status, body)
    return reply.code(status).headers(open).send(body)
  })
}

async function submitInteraction(
  issuer: EmbeddedIssuer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { signIn } = issuer
  const interaction = interactionOf(request, reply)
  const { action } = formOf(request)
  if (action === 'login') {
    const prompt = await undefinedIfExpired(signIn.ask(interaction))
    return prompt === undefined
      ? show(reply, EXPIRED)
      : enterPassword({ issuer, interaction, prompt, request }, reply)
  }
  if (action !== 'allow' && action !== 'deny' && action !== 'leave') throw new Problem('request_malformed')
  const next = await undefinedIfExpired(signIn[action](interaction))
  return next === undefined ? show(reply, EXPIRED) : reply.redirect(next, 303)
}

const INVALID_INVITATION = plainPage(
  'This invitation is not valid',
  'The invitation was already used, or has expired. Ask for a new one.',
  404,
)

async function acceptInvitation({ accounts, audit }: EmbeddedIssuer, request: FastifyRequest): Promise<Page> {
  const token = tokenOf(request)
  const email = await accounts.invited(token)
  if (email === undefined) return INVALID_INVITATION
  const form = formOf(request)
  const error = passwordError(form)
  if (error !== undefined) return invitationPage(email, error)
  const account = await accounts.accept(token, form['password'] ?? '', networkOf(request.ip))
  if (account === undefined) return INVALID_INVITATION
  audit.passwordSet(requesterOf(request), account)
  return plainPage('Your password is set', 'You can close this page and sign in.', 200)
}

async function changePassword({ signIn }: EmbeddedIssuer, request: FastifyRequest): Promise<Page> {
  const form = formOf(request)
  const error = passwordError(form)
  if (error !== undefined) return passwordPage({ status: 400, text: error }, form)
  const credentials = credentialsIn(form, request, form['current'])
  const outcome = await signIn.change(requesterOf(request), credentials, form['password'] ?? '')
  if (outcome === 'second_factor') return passwordPage(NEEDS_ACCOUNT_PAGE, form)
  if (outcome !== 'changed') return passwordPage(LOGIN_ERRORS[outcome], form)
  return plainPage(
    'Your password is changed',
    'All sessions have ended. Sign in again with the new password.',
    200,
  )
}
