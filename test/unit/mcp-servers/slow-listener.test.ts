/** A client that listens and does not read (`subscriptions/listen`). */

import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { McpChange, McpServer } from '../../../src/mcp/protocol/mcp-server.ts'
import { serveModern } from '../../../src/mcp/protocol/serve-modern.ts'

const uri = (n: number) => `tenon://notes/${n}`
const _meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const BODY = {
  jsonrpc: '2.0',
  id: 1,
  method: 'subscriptions/listen',
  params: { notifications: { resourceSubscriptions: [uri(0), uri(1)] }, _meta },
}

test('changes are held back, each once, until the client reads; the last ones arrive', async () => {
  const subscribed = Promise.withResolvers<(change: McpChange) => void>()
  const listen = (_uris: readonly string[], onChange: (change: McpChange) => void) => {
    subscribed.resolve(onChange)
    return () => {}
  }
  const mcp: McpServer = {
    name: 'x',
    version: '1',
    tools: () => [],
    call: async () => undefined,
    resources: { list: () => [], read: async () => undefined },
    changes: { listen },
  }
  const server = createServer((request, response) => void serveModern({ request, response, body: BODY }, mcp))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').pause()
  const lines = ['POST / HTTP/1.1', 'host: x', 'accept: application/json, text/event-stream']
  const more = ['content-type: application/json', 'mcp-method: subscriptions/listen', 'content-length: 0']
  client.write(`${[...lines, ...more].join('\r\n')}\r\nmcp-protocol-version: 2026-07-28\r\n\r\n`)
  const onChange = await subscribed.promise
  const CHANGES = 60_000
  for (let n = 0; n < CHANGES; n += 1) {
    onChange({ uri: uri(0) })
    if (n % 100 === 0) await turn()
  }
  onChange({ uri: uri(1) })
  let text = ''
  client.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  client.resume()
  await expect.poll(() => text).toContain(uri(1))
  expect(text.split(uri(0)).length).toBeLessThan(CHANGES / 2)
  client.destroy()
  server.close()
})
