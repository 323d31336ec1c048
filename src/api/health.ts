/** /healthz: the process; /readyz: each server behind it. Neither needs a credential nor tells a secret. */

import type { FastifyInstance } from 'fastify'
import type { Check, Platform } from '../platform/platform.ts'

const PING_TIMEOUT_MS = 2_000

export function mountHealth(app: FastifyInstance, platform: Platform): void {
  app.get('/healthz', async () => ({ status: 'pass' }))
  app.get('/readyz', async (_request, reply) => {
    const checks = await Promise.all(platform.checks.map(ask))
    const pass = checks.every(([, check]) => check.status === 'pass')
    return reply
      .code(pass ? 200 : 503)
      .send({ status: pass ? 'pass' : 'fail', checks: Object.fromEntries(checks) })
  })
}

async function ask(check: Check): Promise<[string, { status: 'pass' | 'fail'; ms: number }]> {
  const startedMs = performance.now()
  const answered = await Promise.race([
    check.ping().then(
      () => true,
      () => false,
    ),
    new Promise<boolean>((resolve) => setTimeout(resolve, PING_TIMEOUT_MS, false).unref()),
  ])
  return [check.name, { status: answered ? 'pass' : 'fail', ms: Math.round(performance.now() - startedMs) }]
}
