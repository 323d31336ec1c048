/** HTTPS servers on loopback with a self-signed certificate. */

import type { RequestListener } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { selfSigned } from './authority.ts'

export interface TlsServer {
  /** `https://127.0.0.1:<port>` */
  readonly origin: string
  /** `127.0.0.1:<port>` */
  readonly host: string
  /** PEM; clients that trust it can connect. */
  readonly certificate: string
  close(): Promise<void>
}

export async function openTlsServer(listener: RequestListener): Promise<TlsServer> {
  const { key, certificate } = selfSigned()
  const server: Server = createServer({ key, cert: certificate }, listener)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin: `https://${host}`,
    host,
    certificate,
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
