/**
 * Starts an API process with external issuers, a clock for the age of their keys, and counters for its
 * traffic.
 */

import { expect, inject } from 'vitest'
import { type Caller, call, type Reply } from '../fixtures/tenants.ts'
import { startCountedApi } from './counted-api.ts'
import type { Running } from './start.ts'

export interface ApiWithIssuers {
  readonly at: Running
  /** Lines of its log. */
  readonly lines: readonly string[]
  /** Advances the clock for the age of keys. */
  pass(ms: number): void
  ask(as: Caller, path?: string, method?: string): Promise<Reply>
  /** Round trips, commands and pieces sent to the stores during an action. */
  cost(work: () => Promise<unknown>): Promise<number>
  close(): Promise<void>
}

export const DOCUMENTS = '/v1/collections/todos/documents'

/** @param issuers as in OIDC_ISSUERS */
export async function startApiWithIssuers(issuers: readonly object[]): Promise<ApiWithIssuers> {
  let nowMs = 1_000_000
  const node = await startCountedApi({ OIDC_ISSUERS: JSON.stringify(issuers) }, () => nowMs)
  const url = await node.app.listen({ port: 0, host: '127.0.0.1' })
  const at = { ...inject('tenon'), url }
  const total = () => node.seen.trips + node.seen.streams + node.seen.objects
  return {
    at,
    lines: node.lines,
    pass: (ms) => {
      nowMs += ms
    },
    ask: (as, path = DOCUMENTS, method = 'GET') => call(method, path, { as, at }),
    cost: async (work) => {
      // Writes the analytics that are counted in the background, and stops counting for a while.
      await node.platform.meters.flush()
      const before = total()
      await work()
      return total() - before
    },
    close: () => node.close(),
  }
}

/**
 * Checks that a token is rejected with its problem document, on routes of both domains and by the MCP server,
 * before any store is queried.
 */
export async function expectRefused(node: ApiWithIssuers, as: Caller, code = 'token_invalid'): Promise<void> {
  const spent = await node.cost(async () => {
    for (const path of [DOCUMENTS, '/v1/tenants', '/v1/me']) {
      const { status, body, headers } = await node.ask(as, path)
      expect([path, status, body.code]).toEqual([path, 401, code])
      expect(headers.get('content-type')).toContain('application/problem+json')
      expect(headers.get('www-authenticate')).toMatch(/^Bearer .*invalid_token/)
      expect(JSON.stringify(body)).not.toMatch(/jose|JWS|JWK|JWT[A-Z]|realms|\bat \w+ \(/)
    }
    const { status } = await node.ask(as, '/v1/mcp/platform/mcp', 'POST')
    expect(status).toBe(401)
  })
  expect(spent).toBe(0)
}
