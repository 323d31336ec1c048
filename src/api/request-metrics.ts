/** Counts requests by operation and status, and measures how long they take. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isProblemCode } from '../core/problem-catalogue.ts'
import { tagOf } from '../features/openapi/tags.ts'
import type { Metrics, SetValue } from '../infra/metrics/metrics.ts'
import { isEventStream, onEnd, sentStatus } from './request-end.ts'

/** The labels of the requests of a route, of closed lists, and how many there were. */
interface Route {
  readonly operation: string
  readonly area: string
  /** By the first digit of the status. */
  readonly statuses: number[]
  ms: number
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

/**
 * Counts every request when it ends, and reports how many are under way. Numbers of this file count, since
 * adding to a counter of OpenTelemetry takes twenty times as long.
 */
export function measureRequests(app: FastifyInstance, metrics: Metrics): void {
  if (!metrics.isExported) return
  const routes = new Map<object, Route>()
  let inFlight = 0
  metrics.observe('requests', (set) => {
    set('tenon_http_requests_in_flight', inFlight, {})
    for (const total of totals([...routes.values()])) report(set, total)
  })
  app.addHook('onRequest', (request, reply, done) => {
    inFlight += 1
    onEnd(reply, () => {
      inFlight -= 1
      count(metrics, routeOf(routes, request), reply)
    })
    done()
  })
}

function count(metrics: Metrics, route: Route, reply: FastifyReply): void {
  const { elapsedTime } = reply
  const statusCode = sentStatus(reply)
  const digit = Math.floor(statusCode / 100)
  route.statuses[digit] = (route.statuses[digit] ?? 0) + 1
  if (statusCode >= 400) countProblem(metrics, reply)
  // An event stream lasts as long as its client likes.
  if (isEventStream(reply)) return
  route.ms += elapsedTime
  metrics.record('tenon_http_request_duration_seconds', elapsedTime / 1_000, { area: route.area })
}

function countProblem(metrics: Metrics, reply: FastifyReply): void {
  const code = reply.getHeader('x-problem-code')
  if (typeof code === 'string' && isProblemCode(code)) metrics.add('tenon_http_problems_total', 1, { code })
}

/** One sum for the routes of each operation. */
function totals(routes: readonly Route[]): readonly Route[] {
  return [...Map.groupBy(routes, ({ operation }) => operation)].map(([operation, those]) => ({
    ...{ operation, area: those[0]?.area ?? '' },
    statuses: [1, 2, 3, 4, 5].reduce<number[]>((sums, digit) => {
      sums[digit] = those.reduce((sum, { statuses }) => sum + (statuses[digit] ?? 0), 0)
      return sums
    }, []),
    ms: those.reduce((sum, { ms }) => sum + ms, 0),
  }))
}

function report(set: SetValue, { operation, statuses, ms }: Route): void {
  for (const [digit, requests] of statuses.entries())
    if (requests > 0) set('tenon_http_requests_total', requests, { operation, status: `${digit}xx` })
  set('tenon_http_request_seconds_total', ms / 1_000, { operation })
}

/** The options of a route are one object for all its requests. */
function routeOf(routes: Map<object, Route>, { routeOptions }: FastifyRequest): Route {
  const { url = '', config } = routeOptions
  const known = routes.get(config)
  if (known !== undefined) return known
  const name = config.operation?.name
  const area = AREAS.find(([prefix]) => url.startsWith(prefix))?.[1] ?? (url === '' ? 'none' : 'page')
  const labels =
    name === undefined ? { operation: area, area } : { operation: name, area: tagOf(name) ?? area }
  const route = { ...labels, statuses: [], ms: 0 }
  routes.set(config, route)
  return route
}
