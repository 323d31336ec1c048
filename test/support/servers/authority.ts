/** Certificates for tests, in DER (X.690) and PEM: Node makes none. */

import { generateKeyPairSync, type KeyObject, randomBytes, randomUUID, sign } from 'node:crypto'
import { isIP } from 'node:net'

/** A certificate and its key, as PEM. */
export interface Certified {
  readonly certificate: string
  readonly key: string
}

export interface Authority {
  /** PEM; clients that trust it accept what it issues. */
  readonly certificate: string
  issue(options?: IssueOptions): Certified
}

interface IssueOptions {
  /** Host names and IPv4 addresses. */
  readonly hosts?: readonly string[]
  /** Milliseconds since 1970; by default a day before and after now. */
  readonly fromMs?: number
  readonly untilMs?: number
}

const DAY_MS = 86_400_000
const LOOPBACK = ['localhost', '127.0.0.1']

export function makeAuthority(): Authority {
  const own = makeKeys()
  const certificate = pem(certify({ ...own, subject: own.name, signer: own, isAuthority: true }))
  return {
    certificate,
    issue: (options = {}) => {
      const keys = makeKeys()
      const der = certify({ ...keys, subject: keys.name, signer: own, isAuthority: false, ...options })
      return { certificate: pem(der), key: keys.pem }
    },
  }
}

/** A certificate that is its own authority (RFC 5280 §4.1). */
export function selfSigned(options: IssueOptions = {}): Certified {
  const own = makeKeys()
  const der = certify({ ...own, subject: own.name, signer: own, isAuthority: true, ...options })
  return { certificate: pem(der), key: own.pem }
}

interface Keys {
  /** Two authorities of one name would be taken for each other. */
  readonly name: Buffer
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
  readonly pem: string
}

function makeKeys(): Keys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const commonName = der(0x30, oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(randomUUID())))
  const text = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return { privateKey, publicKey, name: der(0x30, der(0x31, commonName)), pem: text }
}

interface Body extends IssueOptions {
  readonly subject: Buffer
  readonly publicKey: KeyObject
  readonly signer: Keys
  readonly isAuthority: boolean
}

function certify({ subject, publicKey, signer, isAuthority, ...options }: Body): Buffer {
  const { hosts = LOOPBACK, fromMs = Date.now() - DAY_MS, untilMs = Date.now() + DAY_MS } = options
  const ecdsaWithSha256 = der(0x30, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02))
  const authority = extension(
    [0x55, 0x1d, 0x13],
    der(0x30, ...(isAuthority ? [der(0x01, Buffer.from([0xff]))] : [])),
  )
  const names = extension([0x55, 0x1d, 0x11], der(0x30, ...hosts.map(nameOf)))
  const content = der(
    0x30,
    der(0xa0, integer(Buffer.from([2]))),
    // A first byte between 1 and 127 keeps the number positive.
    integer(Buffer.concat([Buffer.from([0x40]), randomBytes(8)])),
    ecdsaWithSha256,
    signer.name,
    der(0x30, utcTime(fromMs), utcTime(untilMs)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, authority, names)),
  )
  const signature = sign('sha256', content, { key: signer.privateKey, dsaEncoding: 'der' })
  return der(0x30, content, ecdsaWithSha256, der(0x03, Buffer.from([0]), signature))
}

const nameOf = (host: string): Buffer =>
  isIP(host) === 4 ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host))

const pem = (bytes: Buffer): string => {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** A value in DER (X.690 §8.1). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

const integer = (bytes: Buffer) => der(0x02, bytes)
const oid = (...bytes: number[]) => der(0x06, Buffer.from(bytes))
const extension = (id: number[], value: Buffer) => der(0x30, oid(...id), der(0x04, value))
const utcTime = (ms: number) =>
  der(0x17, Buffer.from(new Date(ms).toISOString().replaceAll(/^20|[-:T]|\.\d+/g, '')))
