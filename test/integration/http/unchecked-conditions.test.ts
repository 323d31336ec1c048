/** Every operation: a condition that it does not check is refused, never ignored. */

import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, inject, test } from 'vitest'
import { OPERATIONS } from '../../../src/features/index.ts'
import { createTestWorkspace, sharedOperator } from '../../support/fixtures/tenants.ts'
import { pathOf } from '../../support/operation-paths.ts'

const VALUES: Readonly<Record<string, string>> = {
  'if-match': '"x"',
  'if-unmodified-since': new Date(0).toUTCString(),
  'if-none-match': '"x"',
  'if-modified-since': new Date(0).toUTCString(),
  'if-range': '"x"',
  'content-range': 'bytes 0-1/2',
}
/** A response to a read may be whole although a part or nothing was asked for (RFC 9110 §13.1.2, §13.1.3, §14.2). */
const IGNORED_BY_READS = new Set(['if-none-match', 'if-modified-since', 'if-range', 'content-range'])

test('operation × condition that it does not bind: 400 that names the header, and nothing is done', async () => {
  const workspace = await createTestWorkspace()
  const admin = await sharedOperator()
  const tried = OPERATIONS.flatMap((operation) => {
    const { method, headers = {}, takes } = operation.http
    const isRead = method === 'GET' || method === 'HEAD'
    if (takes === 'request') return []
    const bound: readonly string[] = Object.values(headers)
    return Object.keys(VALUES)
      .filter((header) => !bound.includes(header) && !(isRead && IGNORED_BY_READS.has(header)))
      .map((header) => ({ operation, header }))
  })
  expect(tried.length).toBeGreaterThan(400)
  const wrong: unknown[] = []
  for (const { operation, header } of tried) {
    const isData = operation.domain === 'data_access'
    const response = await fetch(`${inject('tenon').url}${pathOf(operation, workspace.workspaceId)}`, {
      method: operation.http.method,
      headers: { ...(isData ? workspace.service : admin), [header]: VALUES[header] ?? '' },
    })
    const code = response.headers.get('x-problem-code')
    await response.body?.cancel()
    // Before the condition, the right is checked.
    if (code !== 'condition_unsupported' && response.status !== 403 && response.status !== 401)
      wrong.push([operation.name, header, response.status, code])
  }
  expect(wrong).toEqual([])
})

test('two Host lines: 400 on every listener of the API, whichever is the first (RFC 9112 §3.2)', async () => {
  const { url } = inject('tenon')
  const { host } = new URL(url)
  for (const hosts of [
    [host, 'evil.test'],
    ['evil.test', host],
    [host, host],
  ])
    for (const path of [
      '/healthz',
      '/v1/me',
      '/docs',
      '/auth/.well-known/openid-configuration',
      '/nothing',
    ]) {
      const lines = [`GET ${path} HTTP/1.1`, ...hosts.map((one) => `Host: ${one}`), 'Connection: close']
      expect([path, await statusOf(url, lines)]).toEqual([path, '400'])
    }
})

/** Sends a request as it is. @returns the status of the reply */
async function statusOf(url: string, lines: readonly string[]): Promise<string | undefined> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  return (await text(socket)).split(' ')[1]
}
