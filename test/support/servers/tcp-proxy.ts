/** A TCP proxy that delays a server's responses or connects to none at first. */

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'

export interface TcpProxy {
  readonly port: number
  /** Number of connections so far. */
  readonly connections: number
  /** Ends the connections; the proxy takes new ones. */
  drop(): void
  close(): void
}

/**
 * @param options `port`: any free one by default; `lateMs`: delay of the responses by connection, the first
 * is 0
 */
export async function startTcpProxy(
  { hostname, port: at }: URL,
  { port = 0, lateMs = () => 0 }: { port?: number; lateMs?: (connection: number) => number } = {},
): Promise<TcpProxy> {
  const sockets: Socket[] = []
  let connections = 0
  const server: Server = createServer((socket) => {
    const there = connect(Number(at), hostname)
    sockets.push(socket, there)
    for (const each of [socket, there]) each.on('error', () => {})
    socket.pipe(there)
    there.pipe(later(lateMs(connections++))).pipe(socket)
  })
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  const drop = () => {
    for (const socket of sockets.splice(0)) socket.destroy()
  }
  const close = () => {
    drop()
    server.close()
  }
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    drop,
    close,
  }
}

/** In order, each piece with the same delay. */
const later = (ms: number) =>
  new Transform({
    transform(chunk: Buffer, _encoding, done) {
      void pause(ms).then(() => done(null, chunk))
    },
  })
