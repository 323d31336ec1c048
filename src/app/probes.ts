/** The probes of a process for orchestrators, balancers and operators, over HTTP and without a credential. */

import project from '../../package.json' with { type: 'json' }
import { PROTOCOL } from '../core/work.ts'
import type { HealthReport } from '../infra/health-report.ts'
import type { Health } from './health.ts'

/** Set by the build (cli/stack/build.ts); a process that runs the sources has none. */
declare const TENON_BUILD: { readonly build: string; readonly schema: string }

/** Answers a probe with a status and a JSON body. */
type Probe = () => Promise<{ readonly status: number; readonly body: object }>

const PROBES = ['/healthz', '/readyz', '/startupz', '/version'] as const

export type ProbePath = (typeof PROBES)[number]

/** @param path without the query */
export const isProbe = (path: string): path is ProbePath => PROBES.includes(path as ProbePath)

/** @param showsDetails true on a private port: causes, times and sentences, which name servers and settings */
export const probesOf = (health: Health, showsDetails = false): Readonly<Record<ProbePath, Probe>> => ({
  // Alive: the event loop runs. A server that is away is no reason to restart this process.
  '/healthz': async () => ({ status: 200, body: { status: 'pass' } }),
  '/readyz': async () => {
    const report = await health.read()
    return { status: report.status === 'fail' ? 503 : 200, body: readinessOf(report, showsDetails) }
  },
  '/startupz': async () => {
    if (!health.hasStarted) await health.read()
    const { hasStarted } = health
    return { status: hasStarted ? 200 : 503, body: { status: hasStarted ? 'pass' : 'fail' } }
  },
  '/version': async () => ({ status: 200, body: VERSION }),
})

/** `protocol`: what processes that run at the same time must agree on (core/work.ts); `schema`: the digest of the SQL files. */
const VERSION = {
  version: project.version,
  ...(typeof TENON_BUILD === 'undefined' ? { build: 'sources', schema: null } : TENON_BUILD),
  protocol: PROTOCOL,
}

/** In public, each part has its status alone, and `workers` fails if a task queue has none. */
function readinessOf({ status, draining, parts, idleQueues }: HealthReport, showsDetails: boolean): object {
  const checks = parts.map(({ name, ...check }): [string, object] => [
    name,
    showsDetails ? check : { status: check.status },
  ])
  if (idleQueues.length > 0) checks.push(['workers', { status: 'fail' }])
  return {
    status,
    ...(draining && { draining }),
    checks: Object.fromEntries(checks),
    ...(showsDetails && idleQueues.length > 0 && { idle_queues: idleQueues }),
  }
}
