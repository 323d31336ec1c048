/** A TCP proxy that counts bytes, and cuts the connection once in each direction after so many of them. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  readonly url: string
  /** Bytes that clients have sent. */
  readonly sent: number
  /** Bytes that clients were sent. */
  readonly received: number
  readonly cuts: number
  close(): Promise<void>
}

/** @param after bytes from the clients, and to them, after which a connection is cut */
export async function startCuttingProxy(
  target: string,
  after: { readonly sent: number; readonly received: number },
): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target)
  const counts = { sent: 0, received: 0, cuts: 0 }
  const sockets = new Set<Socket>()
  const pass = (from: Socket, to: Socket, direction: 'sent' | 'received') => {
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
    from.on('data', (chunk) => {
      const before = counts[direction]
      counts[direction] += chunk.length
      if (before <= after[direction] && counts[direction] > after[direction]) {
        counts.cuts += 1
        from.destroy()
        to.destroy()
      } else if (!to.write(chunk)) {
        from.pause()
        to.once('drain', () => from.resume())
      }
    })
  }
  const server = createServer((socket) => {
    const there = connect(Number(port), hostname)
    for (const one of [socket, there]) sockets.add(one)
    pass(socket, there, 'sent')
    pass(there, socket, 'received')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get sent() {
      return counts.sent
    },
    get received() {
      return counts.received
    },
    get cuts() {
      return counts.cuts
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
