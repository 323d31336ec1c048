/**
 * Creates the certificate with which the parts of one server authenticate each other over TLS. Node cannot create one,
 * and a library that can (`@peculiar/x509`) has eleven dependencies.
 */

import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { existsSync, renameSync, writeFileSync } from 'node:fs'

/** Tags of ASN.1 (X.690); a context tag is 0xa0 and its number. */
const [BOOLEAN, INTEGER, BITS, OCTETS, TEXT, UTC, TIME, SEQUENCE, SET] = [
  0x01, 0x02, 0x03, 0x04, 0x0c, 0x17, 0x18, 0x30, 0x31,
]
const [VERSION, EXTENSIONS] = [0xa0, 0xa3]
/** Object identifiers, encoded: ecdsa-with-SHA256, commonName, basicConstraints, subjectAltName. */
const ECDSA = Buffer.from('06082a8648ce3d040302', 'hex')
const COMMON_NAME = Buffer.from('0603550403', 'hex')
const BASIC_CONSTRAINTS = Buffer.from('0603551d13', 'hex')
const ALTERNATIVE_NAME = Buffer.from('0603551d11', 'hex')
const IP_ADDRESS = 0x87
const LOOPBACK = Buffer.from([127, 0, 0, 1])
const TRUE = Buffer.from([0xff])

/**
 * Creates the file on first use: a P-256 key and a self-signed certificate for 127.0.0.1 that is its own CA, as PEM.
 * It has no end of validity (RFC 5280, 4.1.2.5), since only its owner trusts it; deleting the file replaces it.
 * @param path of the file; an existing file stays
 * @param mode its permissions
 */
export function ensureCertificate(path: string, mode = 0o600): void {
  if (existsSync(path)) return
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, createCertificate(), { mode })
  renameSync(draft, path)
}

function createCertificate(): string {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const body = certificateBody(publicKey.export({ type: 'spki', format: 'der' }))
  const signature = der(BITS, Buffer.alloc(1), sign('sha256', body, privateKey))
  const certificate = der(SEQUENCE, body, der(SEQUENCE, ECDSA), signature)
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? []
  const armoured = ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', '']
  return `${privateKey.export({ type: 'pkcs8', format: 'pem' })}${armoured.join('\n')}`
}

/** TBSCertificate (RFC 5280, 4.1.2). */
function certificateBody(publicKey: Buffer): Buffer {
  const commonName = der(SEQUENCE, COMMON_NAME, der(TEXT, Buffer.from('tenon-seaweedfs')))
  const name = der(SEQUENCE, der(SET, commonName))
  const from = der(UTC, Buffer.from('200101000000Z'))
  const until = der(TIME, Buffer.from('99991231235959Z'))
  const isAuthority = der(OCTETS, der(SEQUENCE, der(BOOLEAN, TRUE)))
  const addresses = der(OCTETS, der(SEQUENCE, der(IP_ADDRESS, LOOPBACK)))
  return der(
    SEQUENCE,
    der(VERSION, der(INTEGER, Buffer.from([2]))),
    // A first byte between 1 and 127 keeps the number positive and its form the shortest.
    der(INTEGER, Buffer.from([0x40]), randomBytes(15)),
    der(SEQUENCE, ECDSA),
    name,
    der(SEQUENCE, from, until),
    name,
    publicKey,
    der(
      EXTENSIONS,
      der(
        SEQUENCE,
        der(SEQUENCE, BASIC_CONSTRAINTS, der(BOOLEAN, TRUE), isAuthority),
        der(SEQUENCE, ALTERNATIVE_NAME, addresses),
      ),
    ),
  )
}

/** Tag, length in its shortest form, content (DER, X.690). */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
