/** Counts requests by operation and status, and measures how long they take. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isProblemCode } from '../core/problem-catalogue.ts'
import type { Metrics } from '../infra/metrics/metrics.ts'
import { tagOf } from './openapi.ts'

/** What a request counts as. All values are of closed lists. */
interface Route {
  readonly operation: string
  readonly area: string
}

/** Areas of the routes that are no operations, by the beginning of their pattern. */
const AREAS = [
  ['/v1/mcp/', 'mcp'],
  ['/auth/', 'issuer'],
  ['/.well-known/', 'issuer'],
  ['/docs', 'docs'],
  ['/openapi.json', 'docs'],
  ['/llms.txt', 'docs'],
  ['/healthz', 'health'],
  ['/readyz', 'health'],
  ['/startupz', 'health'],
  ['/version', 'health'],
] as const

/** Counts every request that the application answers, and reports how many it has not answered yet. */
export function measureRequests(app: FastifyInstance, metrics: Metrics): void {
  if (!metrics.isExported) return
  const routes = new Map<string, Route>()
  let inFlight = 0
  metrics.observe('requests', (set) => set('tenon_http_requests_in_flight', inFlight, {}))
  app.addHook('onRequest', (_request, _reply, done) => {
    inFlight += 1
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    inFlight -= 1
    count(metrics, routeOf(routes, request), reply)
    done()
  })
}

function count(metrics: Metrics, { operation, area }: Route, reply: FastifyReply): void {
  const { statusCode, elapsedTime } = reply
  metrics.add('tenon_http_requests_total', 1, { operation, status: `${Math.floor(statusCode / 100)}xx` })
  const code = reply.getHeader('x-problem-code')
  if (typeof code === 'string' && isProblemCode(code)) metrics.add('tenon_http_problems_total', 1, { code })
  // An event stream lasts as long as its client likes.
  if (isEventStream(reply)) return
  metrics.add('tenon_http_request_seconds_total', elapsedTime / 1_000, { operation })
  metrics.record('tenon_http_request_duration_seconds', elapsedTime / 1_000, { area })
}

/** The routes of a method and a pattern are known after its first request. */
function routeOf(routes: Map<string, Route>, { routeOptions }: FastifyRequest): Route {
  const { url = '', method, config } = routeOptions
  const key = `${method} ${url}`
  const known = routes.get(key)
  if (known !== undefined) return known
  const name = config.operation?.name
  const area = AREAS.find(([prefix]) => url.startsWith(prefix))?.[1] ?? (url === '' ? 'none' : 'page')
  const route =
    name === undefined ? { operation: area, area } : { operation: name, area: tagOf(name) ?? area }
  routes.set(key, route)
  return route
}

function isEventStream(reply: FastifyReply): boolean {
  const type = reply.getHeader('content-type') ?? reply.raw.getHeader('content-type')
  return typeof type === 'string' && type.startsWith('text/event-stream')
}
