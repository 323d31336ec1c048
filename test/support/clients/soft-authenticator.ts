/** An authenticator in software (Web Authentication, ES256), whose every answer a test can falsify. */

import { createHash, createSign, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'

/** What an answer has instead of the right values. */
export interface Falsified {
  readonly origin?: string
  readonly rpId?: string
  /** User present (1), user verified (4); 5 by default. */
  readonly flags?: number
  readonly counter?: number
  readonly challenge?: string
  readonly type?: string
  /** Null: none. */
  readonly userHandle?: string | null
  readonly key?: KeyObject
  readonly attestation?: { readonly format: string; readonly statement: Map<string, unknown> }
}

interface Options {
  readonly challenge: string
  readonly rpId?: string
  readonly rp?: { readonly id: string }
  readonly user?: { readonly id: string }
}

const base64url = (bytes: Uint8Array | string) => Buffer.from(bytes).toString('base64url')
const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest()
const AT = 0x40

export class SoftAuthenticator {
  readonly id = randomBytes(32)
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  readonly #origin: string
  #userHandle = ''
  #counter = 0

  /** @param origin of the page */
  constructor(origin: string) {
    this.#origin = origin
  }

  /** The credential for `navigator.credentials.create`, as JSON. @param optionsText of the page */
  create(optionsText: string, falsified: Falsified = {}): string {
    const options: Options = JSON.parse(optionsText)
    this.#userHandle = options.user?.id ?? ''
    const { x = '', y = '' } = this.#keys.publicKey.export({ format: 'jwk' })
    const key = new Map<number, number | Uint8Array>([
      ...([
        [1, 2],
        [3, -7],
        [-1, 1],
      ] as const),
      ...([
        [-2, Buffer.from(x, 'base64url')],
        [-3, Buffer.from(y, 'base64url')],
      ] as const),
    ])
    const attested = Buffer.concat([
      Buffer.alloc(16),
      Buffer.from([0, this.id.length]),
      this.id,
      isoCBOR.encode(key),
    ])
    const data = this.#data(options.rp?.id ?? '', AT, falsified)
    const { format, statement } = falsified.attestation ?? { format: 'none', statement: new Map() }
    const attestationObject = isoCBOR.encode(
      new Map<string, unknown>([
        ['fmt', format],
        ['attStmt', statement],
        ['authData', Uint8Array.from(Buffer.concat([data, attested]))],
      ]) as never,
    )
    const clientDataJSON = this.#clientData('webauthn.create', options, falsified)
    return this.#answer({ clientDataJSON, attestationObject: base64url(attestationObject) })
  }

  /** The credential for `navigator.credentials.get`, as JSON. */
  get(optionsText: string, falsified: Falsified = {}): string {
    const options: Options = JSON.parse(optionsText)
    this.#counter += 1
    const data = this.#data(options.rpId ?? '', 0, falsified)
    const clientDataJSON = this.#clientData('webauthn.get', options, falsified)
    const signed = Buffer.concat([data, sha256(Buffer.from(clientDataJSON, 'base64url'))])
    const signature = createSign('sha256')
      .update(signed)
      .sign(falsified.key ?? this.#keys.privateKey)
    const { userHandle = this.#userHandle } = falsified
    return this.#answer({
      ...{ clientDataJSON, authenticatorData: base64url(data), signature: base64url(signature), userHandle },
    })
  }

  #answer(response: object): string {
    const id = base64url(this.id)
    return JSON.stringify({ id, rawId: id, type: 'public-key', clientExtensionResults: {}, response })
  }

  #data(rpId: string, more: number, falsified: Falsified): Buffer {
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(falsified.counter ?? this.#counter)
    const flags = (falsified.flags ?? 5) | more
    return Buffer.concat([sha256(falsified.rpId ?? rpId), Buffer.from([flags]), counter])
  }

  #clientData(type: string, { challenge }: Options, falsified: Falsified): string {
    const { origin = this.#origin } = falsified
    return base64url(JSON.stringify({ type, challenge, origin, crossOrigin: false, ...pick(falsified) }))
  }
}

const pick = ({ challenge, type }: Falsified) => ({
  ...(challenge !== undefined && { challenge }),
  ...(type !== undefined && { type }),
})
