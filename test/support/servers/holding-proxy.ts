/** A TCP proxy that holds back what a client sends from the first chunk with a text on, until it is released. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

interface HoldingProxy {
  readonly url: string
  /** Resolves when such a chunk has come. */
  readonly held: Promise<void>
  release(): void
  close(): void
}

export async function startHoldingProxy(target: string, text: string): Promise<HoldingProxy> {
  const { hostname, port, protocol, username, password } = new URL(target)
  const { promise: held, resolve: hold } = Promise.withResolvers<void>()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const there = connect(Number(port), hostname)
    for (const [from, to] of [
      [socket, there],
      [there, socket],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy()).on('close', () => to.destroy())
    }
    there.pipe(socket)
    let before = Promise.resolve()
    socket.on('data', (chunk: Buffer) => {
      const isHeld = chunk.includes(text)
      if (isHeld) hold()
      const wait = isHeld ? released : undefined
      before = before.then(() => wait).then(() => void there.write(chunk))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const credentials = username === '' && password === '' ? '' : `${username}:${password}@`
  return {
    url: `${protocol}//${credentials}127.0.0.1:${(server.address() as AddressInfo).port}`,
    held,
    release,
    close: () => {
      release()
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
