/** A port that passes bytes to a server and back, for tests of what the wire does: nobody there at first, late answers. */

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'

export interface Passing {
  readonly port: number
  /** That were made to it so far. */
  readonly connections: number
  close(): void
}

/** @param options `port`: any where none is given; `lateMs`: by how much answers come later, by connection, the first is 0 */
export async function passingTo(
  { hostname, port: at }: URL,
  { port = 0, lateMs = () => 0 }: { port?: number; lateMs?: (connection: number) => number } = {},
): Promise<Passing> {
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
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    close,
  }
}

/** In order, each piece by as much later. */
const later = (ms: number) =>
  new Transform({
    transform(chunk: Buffer, _encoding, done) {
      void pause(ms).then(() => done(null, chunk))
    },
  })
