/** Lets the Temporal UI, a page of another origin, ask the codec server from a browser; and no other page (Fetch, "CORS"). */

import type { FastifyInstance } from 'fastify'
import { PAGE_PASS_PATH, type PagePass } from '../platform/identity/page-pass.ts'

const PATHS = '/v1/codec/'

const ALLOWED = {
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'authorization, content-type, x-namespace',
  'access-control-max-age': '600',
}

/**
 * @param uiUrl where the UI is; where that is not known, no page is let in
 * @param pass reads the cookie of a page: no other origin's request is anybody's by its cookie
 */
export function admitTemporalUi(app: FastifyInstance, uiUrl: string | undefined, pass: PagePass): void {
  app.decorateRequest('pageToken', undefined)
  if (uiUrl === undefined) return
  const { origin } = new URL(uiUrl)
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.url.startsWith(PATHS)) return done()
    reply.header('vary', 'Authorization, apikey, Accept, Origin')
    if (request.headers.origin !== origin) return done()
    reply.headers({ 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' })
    // The UI puts a question of its own behind it.
    if (request.url.split('?', 1)[0] === PAGE_PASS_PATH)
      request.pageToken = pass.tokenIn(request.headers.cookie)
    if (request.method !== 'OPTIONS') return done()
    reply.code(204).headers(ALLOWED).send()
  })
}
