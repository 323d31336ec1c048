/** Bodies that are rejected before they have arrived: ordinary clients read the problem, endless senders are cut off. */

import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { beforeAll, expect, inject, test } from 'vitest'
import { API_LIMITS } from '../../../src/api/limits.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const DOCUMENTS = '/v1/collections/todos/documents'

/** Posts with the standard library of Python, which reads the response only after it has sent the whole body. */
const URLLIB = `
import json, sys, urllib.error, urllib.request
url, key, size, chunked = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == 'chunked'
body = b'{"a": "' + b'x' * size + b'"}'
data = iter(body[at:at + 65536] for at in range(0, len(body), 65536)) if chunked else body
headers = {'apikey': key, 'content-type': 'application/json'}
try:
    urllib.request.urlopen(urllib.request.Request(url, data, headers))
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)['code'])
`

async function postWithPython(path: string, key: string, bytes: number, framing: string): Promise<string> {
  const args = ['-c', URLLIB, `${inject('tenon').url}${path}`, key, String(bytes), framing]
  const python = spawn('python3', args)
  const [out, errors] = await Promise.all([text(python.stdout), text(python.stderr)])
  return out.trim() || (errors.trim().split('\n').at(-1) ?? '')
}

test.each([
  ['5 MB', 5_000_000, 'whole'],
  ['5 MB in chunks', 5_000_000, 'chunked'],
  ['15 MB', 15_000_000, 'whole'],
])('urllib of Python, %s: reads 413', async (_name, bytes, framing) => {
  const key = workspace.service['apikey'] ?? ''
  expect(await postWithPython(DOCUMENTS, key, bytes, framing)).toBe('413 body_too_large')
})

test('urllib of Python, 5 MB with a wrong key: reads 401', async () => {
  expect(await postWithPython(DOCUMENTS, 'svc_service_wrong', 5_000_000, 'whole')).toMatch(/^401 /)
})

test('fetch of Node, 5 MB: reads 413', async () => {
  const body = JSON.stringify({ a: 'x'.repeat(5_000_000) })
  const { status } = await call('POST', DOCUMENTS, { as: workspace.service, body })
  expect(status).toBe(413)
})

/** Sends until the server closes the connection. @returns the start of the response, and the bytes that were accepted */
function sendEndlessly(head: string, piece: Buffer): Promise<{ reply: string; sent: number; ms: number }> {
  const { hostname, port } = new URL(inject('tenon').url)
  const socket = connect({ host: hostname, port: Number(port) })
  const elapsedMs = stopwatch()
  let reply = ''
  socket.on('data', (data) => {
    reply += data
  })
  socket.on('error', () => {})
  const send = () => {
    while (!socket.destroyed && socket.write(piece)) if (socket.bytesWritten > 1e9) socket.destroy()
  }
  socket.on('connect', () => {
    socket.write(head)
    send()
  })
  socket.on('drain', send)
  return new Promise((done) =>
    socket.on('close', () => done({ reply, sent: socket.bytesWritten, ms: elapsedMs() })),
  )
}

const headOf = (length: string) =>
  `POST ${DOCUMENTS} HTTP/1.1\r\nhost: x\r\napikey: ${workspace.service['apikey']}\r\ncontent-type: application/json\r\n${length}\r\n\r\n`

test.each([
  ['announced 10 GB', 'content-length: 10000000000', Buffer.alloc(65_536, 'x')],
  [
    'in chunks without an end',
    'transfer-encoding: chunked',
    Buffer.from(`10000\r\n${'x'.repeat(65_536)}\r\n`),
  ],
])(
  'endless body, %s: gets 413, and is cut off after a fixed number of bytes',
  async (_name, length, piece) => {
    const { reply, sent, ms } = await sendEndlessly(headOf(length), piece)
    expect(reply).toMatch(/^HTTP\/1\.1 413 /)
    // The bytes that the server reads, and those that the buffers of both sockets hold, which grow while it is slow.
    expect(sent).toBeLessThan(API_LIMITS.drainBytesMax + 32 * 1_048_576)
    expect(ms).toBeLessThan(API_LIMITS.drainMs + 2_000)
  },
)

test('body that stops half-way: is cut off after a fixed time', async () => {
  const { hostname, port } = new URL(inject('tenon').url)
  const socket = connect({ host: hostname, port: Number(port) })
  const elapsedMs = stopwatch()
  socket.write(`${headOf('content-length: 5000000')}{`)
  const reply = await text(socket)
  expect(reply).toMatch(/^HTTP\/1\.1 413 /)
  expect(elapsedMs()).toBeLessThan(API_LIMITS.drainMs + 2_000)
})
