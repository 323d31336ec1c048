/** HTTPS servers on loopback with a self-signed certificate, which is made here: Node makes none. */

import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'

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

const DAY_MS = 86_400_000

/** A certificate for 127.0.0.1 that is its own authority (RFC 5280 §4.1), valid for a day. */
function selfSigned(): { key: string; certificate: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const ecdsaWithSha256 = der(0x30, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02))
  // Two authorities of one name would be taken for each other.
  const commonName = der(0x30, oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(randomUUID())))
  const name = der(0x30, der(0x31, commonName))
  const validity = der(0x30, utcTime(Date.now() - DAY_MS), utcTime(Date.now() + DAY_MS))
  const authority = extension([0x55, 0x1d, 0x13], der(0x30, der(0x01, Buffer.from([0xff]))))
  const names = extension([0x55, 0x1d, 0x11], der(0x30, der(0x87, Buffer.from([127, 0, 0, 1]))))
  const content = der(
    0x30,
    der(0xa0, integer(2)),
    integer(1),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, authority, names)),
  )
  const signature = sign('sha256', content, { key: privateKey, dsaEncoding: 'der' })
  const certificate = der(0x30, content, ecdsaWithSha256, der(0x03, Buffer.from([0]), signature))
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    certificate: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`,
  }
}

/** A value in DER (X.690 §8.1). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

const integer = (value: number) => der(0x02, Buffer.from([value]))
const oid = (...bytes: number[]) => der(0x06, Buffer.from(bytes))
const extension = (id: number[], value: Buffer) => der(0x30, oid(...id), der(0x04, value))
const utcTime = (ms: number) =>
  der(0x17, Buffer.from(new Date(ms).toISOString().replaceAll(/^20|[-:T]|\.\d+/g, '')))
