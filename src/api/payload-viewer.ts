/** The page at which an admin lets the Temporal UI in this browser read payloads, with a token of their own. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { PAYLOAD_SESSION_PATH, type PayloadSession } from '../access/authentication/payload-session.ts'
import type { AuthServices } from '../app/auth-services.ts'
import type { Platform } from '../app/platform.ts'
import { Problem } from '../core/problem.ts'
import { decodePayloads } from '../features/flows/codec-api.ts'
import { payloadsPage, payloadsReadablePage } from '../features/identity/pages/pages.ts'
import { publicUrl } from '../infra/config.ts'
import { formOf, readForms, rejectCrossSite, show } from './issuer/forms.ts'

const PATH = '/auth/payloads'

/** Mounts the page if a Temporal UI is configured. */
export async function mountPayloadPage(
  app: FastifyInstance,
  platform: Platform,
  authServices: AuthServices,
): Promise<void> {
  const { config } = platform
  const { TEMPORAL_UI_URL: uiUrl } = config
  if (uiUrl === undefined) return
  const { origin } = new URL(publicUrl(config))
  await app.register(async (pages) => {
    readForms(pages)
    pages.get(PATH, async (_request, reply) => show(reply, payloadsPage()))
    // An audit entry records each attempt.
    const audited = { config: { operation: { name: 'codec.admit_page', reads: false } } }
    pages.post(PATH, audited, async (request, reply) => {
      rejectCrossSite(request, origin)
      const token = (formOf(request)['token'] ?? '').trim()
      const refused = await authenticate(request, reply, token, { platform, authServices })
      if (refused !== undefined) return show(reply, payloadsPage(refused))
      const { cookie, until } = authServices.payloadSession.issue(token)
      reply.header('set-cookie', cookie)
      return show(reply, payloadsReadablePage({ until, uiUrl, endpoint: `${publicUrl(config)}/v1/codec` }))
    })
  })
}

/** Checks that the token may read payloads. @returns the problem if not */
async function authenticate(
  request: FastifyRequest,
  reply: FastifyReply,
  token: string,
  { platform, authServices }: { platform: Platform; authServices: AuthServices },
): Promise<Problem | undefined> {
  try {
    request.principal = await authServices.auth.authenticate({ kind: 'token', text: token })
    platform.access.permit(decodePayloads, request.principal)
    return undefined
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error
    reply.header('x-problem-code', error.code)
    return error
  }
}

const PATHS = '/v1/codec/'

const ALLOWED = {
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'authorization, content-type, x-namespace',
  'access-control-max-age': '600',
}

/**
 * Allows the Temporal UI to call the codec from the browser (CORS).
 * @param uiUrl of the UI; if undefined, no origin is allowed
 * @param session reads the cookie, of requests from the UI's origin only
 */
export function allowTemporalUiOrigin(
  app: FastifyInstance,
  uiUrl: string | undefined,
  session: PayloadSession,
): void {
  if (uiUrl === undefined) return
  const { origin } = new URL(uiUrl)
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.url.startsWith(PATHS)) return done()
    if (request.headers.origin !== origin) return done()
    reply.headers({ 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' })
    // The UI appends a query.
    if (request.url.split('?', 1)[0] === PAYLOAD_SESSION_PATH)
      request.pageToken = session.tokenIn(request.headers.cookie)
    if (request.method !== 'OPTIONS') return done()
    reply.code(204).headers(ALLOWED).send()
  })
}
