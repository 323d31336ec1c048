/** The codec of all that goes through Temporal: compressed, encrypted with the tenant's key, and kept elsewhere if large. */

import { createHmac } from 'node:crypto'
import type { Payload, PayloadCodec, SerializationContext } from '@temporalio/common'
import { LIMITS } from '../../core/limits.ts'
import { MARK, type Mark } from '../../core/payload-mark.ts'
import { Problem } from '../../core/problem.ts'
import { refOf, type TenantId } from '../../core/tenant.ts'
import { insist } from '../insist.ts'
import { openWith, sealWith } from '../sealing.ts'
import { expand, fromBytes, squeeze, toBytes } from './frame.ts'
import { Kept } from './kept.ts'
import type { PayloadStore } from './store.ts'
import { type DataKey, type TenantKeys, tenantOf } from './tenant-keys.ts'

const ENCODING = 'encoding'
const KEY_ID = 'encryption-key-id'
/** `data` is the ciphertext. */
const INLINE = 'binary/tenon-encrypted'
/** `data` is the name of an object that has it, below the tenant and the number of the key. */
const CLAIM = 'binary/tenon-claim'

const { inlineBytesMax, keptBytesMax } = LIMITS.payloads

/** For how many milliseconds it asks for a server that is away: a worker waits, a request does not. */
export type Patience = Readonly<Record<SerializationContext['type'], number>>

/** Whose a payload is, as far as its context says, and how long it may take. */
interface About {
  readonly tenantId: TenantId | undefined
  readonly patienceMs: number
}

export class TenantCodec implements PayloadCodec {
  readonly #keys: TenantKeys
  readonly #store: PayloadStore
  readonly #patience: Patience
  readonly #kept = new Kept(keptBytesMax)

  constructor(keys: TenantKeys, store: PayloadStore, patience: Patience) {
    this.#keys = keys
    this.#store = store
    this.#patience = patience
  }

  /**
   * Whose payloads they are, the id of the workflow says.
   * @throws TypeError where it says nothing: what belongs to nobody is not sent in the clear
   * @throws Problem `payload_unreadable` where the tenant's keys were destroyed, `dependency_unavailable`
   */
  encode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    const about = this.#about(context)
    return Promise.all(payloads.map((payload) => this.#encodeMarked(payload, about)))
  }

  /** {@link encode} for a tenant that is known otherwise. */
  encodeFor(tenantId: TenantId, payloads: readonly Payload[]): Promise<Payload[]> {
    return Promise.all(payloads.map((payload) => this.#encodeOne(payload, { tenantId, patienceMs: 0 })))
  }

  /**
   * Needs no context; where there is one, another tenant's payloads are refused. What was never encoded stays as it is.
   * @throws Problem `payload_unreadable`, `dependency_unavailable`
   */
  decode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    const about = this.#about(context)
    return Promise.all(payloads.map((payload) => this.#decodeOne(payload, about)))
  }

  #about(context: SerializationContext | undefined): About {
    const id = context?.workflowId
    return {
      tenantId: id === undefined ? undefined : refOf(id)?.tenantId,
      patienceMs: this.#patience[context?.type ?? 'workflow'],
    }
  }

  async #encodeMarked(payload: Payload, about: About): Promise<Payload> {
    const mark = textOf(payload, MARK) as Mark | undefined
    if (mark === 'open' || mark === 'inside' || isEncoded(payload)) return payload
    if (mark === undefined) return this.#encodeOne(payload, about)
    // Who throws here while a failure is told ends the worker.
    return this.#encodeOne(payload, about).catch(() => withheld(mark))
  }

  async #encodeOne(payload: Payload, { tenantId, patienceMs }: About): Promise<Payload> {
    if (tenantId === undefined) throw new TypeError('A payload of no tenant is not sent')
    const key = await insist(patienceMs, () => this.#keys.newest(tenantId))
    const bytes = toBytes(payload)
    const sealed = sealWith(key.secret, await squeeze(bytes), key.id)
    if (sealed.length <= inlineBytesMax) return encoded(INLINE, key, sealed)
    const digest = createHmac('sha256', key.secret).update(bytes).digest('hex')
    await insist(patienceMs, () => this.#deposit(nameOf(key, digest), bytes, sealed))
    return encoded(CLAIM, key, Buffer.from(digest))
  }

  /** The same content has one name with one key, so that it is stored once. */
  async #deposit(name: string, bytes: Buffer, sealed: Buffer): Promise<void> {
    if (this.#kept.get(name) !== undefined) return
    await this.#store.put(name, sealed)
    this.#kept.set(name, bytes)
  }

  async #decodeOne(payload: Payload, { tenantId, patienceMs }: About): Promise<Payload> {
    if (!isEncoded(payload)) return payload
    const id = textOf(payload, KEY_ID) ?? ''
    if (tenantId !== undefined && tenantOf(id) !== tenantId) throw unreadable()
    const key = await insist(patienceMs, () => this.#keys.of(id))
    const data = Buffer.from(payload.data ?? [])
    if (textOf(payload, ENCODING) === INLINE) return fromBytes(await opened(key, data))
    const digest = data.toString()
    if (!/^[0-9a-f]{64}$/.test(digest)) throw unreadable()
    return fromBytes(await insist(patienceMs, () => this.#fetch(key, nameOf(key, digest))))
  }

  async #fetch(key: DataKey, name: string): Promise<Buffer> {
    const known = this.#kept.get(name)
    if (known !== undefined) return known
    const bytes = await opened(key, await this.#store.get(name))
    this.#kept.set(name, bytes)
    return bytes
  }
}

/** Whose an encoded payload is; undefined for any other. */
export function holderOf(payload: Payload): TenantId | undefined {
  return isEncoded(payload) ? tenantOf(textOf(payload, KEY_ID) ?? '') : undefined
}

/** Whether what it says lies in the object store. */
export const isElsewhere = (payload: Payload): boolean => textOf(payload, ENCODING) === CLAIM

function isEncoded(payload: Payload): boolean {
  const encoding = textOf(payload, ENCODING)
  return encoding === INLINE || encoding === CLAIM
}

function textOf({ metadata }: Payload, name: string): string | undefined {
  const value = metadata?.[name]
  return value == null ? undefined : Buffer.from(value).toString()
}

function encoded(encoding: string, key: DataKey, data: Buffer): Payload {
  return { metadata: { [ENCODING]: Buffer.from(encoding), [KEY_ID]: Buffer.from(key.id) }, data }
}

/** `<tenant>/<number of the key>/<digest>`: what a tenant has, and what a key reads, lie together. */
const nameOf = (key: DataKey, digest: string) => `${key.id.replace('.', '/')}/${digest}`

/** @throws Problem `payload_unreadable` where it is not what the key has sealed */
async function opened(key: DataKey, sealed: Buffer): Promise<Buffer> {
  let squeezed: Buffer
  try {
    squeezed = openWith(key.secret, sealed, key.id)
  } catch (cause) {
    throw unreadable(cause)
  }
  return expand(squeezed)
}

/** What stands in a failure in place of what could not be encrypted. */
function withheld(mark: Mark): Payload {
  const said = { message: 'Withheld: it could not be encrypted.', stack_trace: '' }
  const data = Buffer.from(JSON.stringify(mark === 'failure' ? said : null))
  return { metadata: { [ENCODING]: Buffer.from('json/plain') }, data }
}

function unreadable(cause?: unknown): Problem {
  return new Problem('payload_unreadable', { detail: 'It was changed, or is another tenant’s.', cause })
}
