/**
 * Keep-alive of outgoing connections: reuse by owner, server and guard, and recovery from closed connections.
 */

import { createServer, type Server } from 'node:http'
import {
  type AddressInfo,
  createServer as createRawServer,
  type Server as RawServer,
  type Socket,
} from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { Egress, type Sender } from '../../../src/infra/http-client/egress.ts'

const servers: (Server | RawServer)[] = []
const sockets: Socket[] = []
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
})

async function listening(server: Server | RawServer): Promise<number> {
  servers.push(server)
  server.on('connection', (socket: Socket) => sockets.push(socket))
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return (server.address() as AddressInfo).port
}

/** Answers with the port of the client: one for each connection. */
const listenWithClientPorts = () =>
  listening(createServer(({ socket }, response) => response.end(String(socket.remotePort))))

/** Answers each connection with the given handler, by its number. */
const raw = (answer: (socket: Socket, nth: number, connection: number) => void) => {
  let connections = 0
  return listening(
    createRawServer((socket) => {
      const connection = ++connections
      let nth = 0
      socket.on('data', () => answer(socket, ++nth, connection)).on('error', () => {})
    }),
  )
}

const OK = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`

/** Sends to `127.0.0.1:port` by default and returns the body, or the code of the problem. */
const sender =
  (egress: Egress, port: number) =>
  async (who: Partial<Sender>, method = 'GET', timeoutMs = 5_000) => {
    const place = `localhost:${port}`
    const outbound = { method, url: new URL(`http://${place}/`), headers: {} }
    try {
      const bounds = { timeoutMs, bytesMax: 1_000 }
      const { body } = await egress.send(outbound, { allowed: [place], ...who }, bounds)
      return body.toString()
    } catch (error) {
      return (error as { code: string }).code
    }
  }

test('kept connection: is reused by its owner only, under the same guard', async () => {
  const send = sender(new Egress([]), await listenWithClientPorts())
  const first = await send({ owner: 'a' })
  expect(await send({ owner: 'a' })).toBe(first)
  const others = [
    await send({ owner: 'b' }),
    await send({}),
    await send({}),
    await send({ owner: 'a' }, 'POST'),
    await send({ owner: 'a' }, 'POST'),
  ]
  expect(new Set([first, ...others]).size).toBe(6)
  expect(await send({ owner: 'a' })).toBe(first)
})

test('kept connection: the guard no longer permits the server: is not used', async () => {
  const send = sender(new Egress([]), await listenWithClientPorts())
  await send({ owner: 'a' })
  expect(await send({ owner: 'a', allowed: [] })).toBe('egress_refused')
})

test('kept connection: closed by the server: the request is sent on a new one', async () => {
  const port = await raw((socket, nth, connection) => {
    if (nth === 1) socket.write(OK(`connection ${connection}`))
    else socket.resetAndDestroy()
  })
  const send = sender(new Egress([]), port)
  expect(await send({ owner: 'a' })).toBe('connection 1')
  expect(await send({ owner: 'a' })).toBe('connection 2')
})

test('server that closes each connection without an answer: retries are bounded', async () => {
  const port = await raw((socket, nth, connection) => {
    if (nth === 1 && connection === 1) socket.write(OK('once'))
    else socket.resetAndDestroy()
  })
  const send = sender(new Egress([]), port)
  expect(await send({ owner: 'a' })).toBe('once')
  expect(await send({ owner: 'a' })).toBe('upstream_unavailable')
})

test('unsafe method on kept connections: reused if the sender says so, and never repeated', async () => {
  const send = sender(new Egress([]), await listenWithClientPorts())
  const who = { owner: 'a', reusesAlways: true }
  expect(await send(who, 'POST')).toBe(await send(who, 'POST'))
  const received: number[] = []
  const port = await raw((socket, nth, connection) => {
    received.push(connection)
    if (nth === 1) socket.write(OK('once'))
    else socket.resetAndDestroy()
  })
  const again = sender(new Egress([]), port)
  expect(await again(who, 'POST')).toBe('once')
  expect(await again(who, 'POST')).toBe('upstream_unavailable')
  expect(received).toEqual([1, 1])
})

test('wanted part of a response: returned at once; the connection is kept only if the response ends', async () => {
  const closed: number[] = []
  const port = await listening(
    createServer(({ socket, headers }, response) => {
      socket.once('close', () => closed.push(socket.remotePort ?? 0))
      response.write(`${socket.remotePort}\n`)
      if (headers['x-ends'] === 'yes') setTimeout(() => response.end('rest'), 20)
    }),
  )
  const egress = new Egress([`127.0.0.1:${port}`])
  const url = new URL(`http://127.0.0.1:${port}/`)
  const wantedPart = () => (chunk: Buffer) => chunk.includes('\n')
  const ask = async (ends: string) => {
    const bounds = { timeoutMs: 5_000, bytesMax: 1_000, wantedPart }
    const outbound = { method: 'GET', url, headers: { 'x-ends': ends } }
    return Number((await egress.send(outbound, { allowed: [], owner: 'a' }, bounds)).body)
  }
  const seen = new Set<number>()
  const isReused = async () => {
    const before = seen.size
    return seen.add(await ask('yes')).size === before
  }
  await expect.poll(isReused).toBe(true)
  const open = await ask('no')
  await expect.poll(() => closed).toContain(open)
})

test('unsolicited response: is not taken for the answer to the next request', async () => {
  const port = await raw((socket, _nth, connection) =>
    socket.write(OK(`connection ${connection}`) + OK('unasked')),
  )
  const send = sender(new Egress([]), port)
  for (let n = 0; n < 3; n++) expect(await send({ owner: 'a' })).toMatch(/^connection/)
})

test('time limit in the middle of a response: the connection is discarded', async () => {
  const port = await raw((socket, _nth, connection) =>
    socket.write(connection === 1 ? OK('half').slice(0, -2) : OK('whole')),
  )
  const send = sender(new Egress([]), port)
  expect(await send({ owner: 'a' }, 'GET', 200)).toBe('upstream_timeout')
  expect(await send({ owner: 'a' })).toBe('whole')
})

test('concurrent requests: each gets its own response', async () => {
  const port = await listening(
    createServer((request, response) =>
      setTimeout(() => response.end(request.headers['x-n']), Math.random() * 20),
    ),
  )
  const egress = new Egress([`127.0.0.1:${port}`])
  const url = new URL(`http://127.0.0.1:${port}/`)
  const ask = async (n: string) =>
    (
      await egress.send({ method: 'GET', url, headers: { 'x-n': n } }, { allowed: [], owner: 'a' })
    ).body.toString()
  const numbers = Array.from({ length: 200 }, (_, n) => String(n))
  expect(await Promise.all(numbers.map(ask))).toEqual(numbers)
})

test('destination outside the allowlist: the allowlist is read again before the rejection, and only then', async () => {
  const port = await listenWithClientPorts()
  const send = sender(new Egress([]), port)
  let lookups = 0
  const now = (allowed: readonly string[]) => async () => {
    lookups += 1
    return allowed
  }
  await send({ allowedNow: now([]) })
  expect(lookups).toBe(0)
  expect(await send({ allowed: [], allowedNow: now([`localhost:${port}`]) })).toMatch(/^\d+$/)
  expect(await send({ allowed: [], allowedNow: now(['localhost:1']) })).toBe('egress_refused')
  expect(lookups).toBe(2)
})

test('allowlist of the platform: host with *: opens each port of that host, and no other host', async () => {
  const port = await listenWithClientPorts()
  const send = sender(new Egress(['localhost:*']), port)
  expect(await send({ allowed: [] })).toMatch(/^\d+$/)
  expect(await sender(new Egress(['127.0.0.1:*']), port)({ allowed: [] })).toBe('egress_refused')
})
