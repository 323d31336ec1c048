/** Which era a request belongs to. Either can be dropped by dropping its line here. */

import { serveLegacy } from './legacy.ts'
import { serveModern } from './modern.ts'
import type { Serve } from './port.ts'

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
const FIRST_MODERN = '2026-07-28'

/** Modern requests say so in their body, each of them; the header alone counts only where it names such a version. */
function isModern(body: unknown, header: string | string[] | undefined): boolean {
  const params = (body as { params?: { _meta?: Record<string, unknown> } } | null)?.params
  if (params?._meta?.[VERSION_KEY] !== undefined) return true
  return typeof header === 'string' && /^\d{4}-\d\d-\d\d$/.test(header) && header >= FIRST_MODERN
}

export const serve: Serve = (exchange, server) => {
  const { body, request } = exchange
  const era = isModern(body, request.headers['mcp-protocol-version']) ? serveModern : serveLegacy
  return era(exchange, server)
}
