/** A TCP proxy that delays a server's responses, ends or resets its connections, or passes nothing on for a time. */

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'

export interface TcpProxy {
  readonly port: number
  /** Number of connections so far. */
  readonly connections: number
  /** Ends the connections; the proxy takes new ones. */
  drop(): void
  /** Resets the connections, as a machine that has lost them does; the proxy takes new ones. */
  reset(): void
  /** Responses on all connections are later by this time from now on. */
  delay(ms: number): void
  /** While true, all connections stay open, and nothing passes in either direction; what was sent meanwhile passes afterwards. */
  blackhole(isOn: boolean): void
  close(): void
}

interface TcpProxyOptions {
  readonly host?: string
  readonly port?: number
  readonly lateMs?: (connection: number) => number
}

/**
 * @param options `host`: the loopback by default; `port`: any free one by default; `lateMs`: delay of the responses by connection, the first
 * is 0
 */
export async function startTcpProxy(
  { hostname, port: at }: URL,
  { host = '127.0.0.1', port = 0, lateMs = () => 0 }: TcpProxyOptions = {},
): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  const state = { delayMs: 0, opened: Promise.resolve(), open: () => {} }
  let connections = 0
  const server: Server = createServer((socket) => {
    const there = connect(Number(at), hostname)
    const ownMs = lateMs(connections++)
    for (const [one, other] of [[socket, there] as const, [there, socket] as const]) {
      sockets.add(one)
      one.on('error', () => {})
      one.on('close', (isBroken) => {
        sockets.delete(one)
        // One that ends in order has its last bytes on the way.
        if (isBroken) other.destroy()
      })
    }
    const opened = () => state.opened
    socket.pipe(gate(opened)).pipe(there)
    there
      .pipe(late(() => ownMs + state.delayMs))
      .pipe(gate(opened))
      .pipe(socket)
  })
  await new Promise<void>((done) => server.listen(port, host, done))
  const drop = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    drop,
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    delay: (ms) => {
      state.delayMs = ms
    },
    blackhole: (isOn) => {
      state.open()
      if (!isOn) return
      const { promise, resolve } = Promise.withResolvers<void>()
      Object.assign(state, { opened: promise, open: resolve })
    },
    close: () => {
      state.open()
      drop()
      server.close()
    },
  }
}

/** In order, each piece after a delay of its own. */
function late(ms: () => number): Transform {
  let before: Promise<unknown> = Promise.resolve()
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const due = Promise.all([before, ms() > 0 && pause(ms(), undefined, { ref: false })])
      before = due.then(() => this.push(chunk))
      done()
    },
    flush: (done) => void before.then(() => done()),
  })
}

/** Waits with each piece until it may pass. */
const gate = (mayPass: () => Promise<void>) =>
  new Transform({
    transform(chunk: Buffer, _encoding, done) {
      void mayPass().then(() => done(null, chunk))
    },
    flush: (done) => void mayPass().then(() => done()),
  })
