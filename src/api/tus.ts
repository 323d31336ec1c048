/** Adds the version of tus to each response of its routes, and answers `OPTIONS` there (tus 1.0). */

import type { FastifyInstance } from 'fastify'
import { TUS_CAPABILITIES, TUS_VERSION } from '../core/tus.ts'
import { OPERATIONS } from '../features/index.ts'
import { routePath } from './bind.ts'

const ROUTES = new Set(
  OPERATIONS.filter(({ http }) => Object.values(http.headers ?? {}).includes('tus-resumable')).map(routePath),
)

/** @param objectBytesMax the largest upload */
export function describeTus(app: FastifyInstance, objectBytesMax: number): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (!ROUTES.has(request.routeOptions.url ?? '')) return done()
    reply.header('tus-resumable', TUS_VERSION)
    if (request.method !== 'OPTIONS') return done()
    reply
      .code(204)
      .headers({ ...TUS_CAPABILITIES, 'tus-max-size': String(objectBytesMax) })
      .send()
  })
}
