/**
 * The codec of all that goes through Temporal: compressed, encrypted with the tenant's key, bound to one workflow, and kept
 * elsewhere if large. A worker believes nothing else: whoever reaches Temporal, but has no key, cannot make a payload that it
 * accepts, nor move one from one workflow to another (decision 62).
 */

import { createHash, createHmac } from 'node:crypto'
import type { Payload, PayloadCodec, SerializationContext } from '@temporalio/common'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { refOf, type TenantId, withoutScheduledTime } from '../../core/tenant.ts'
import { MARK, type Mark, PURPOSE, REJECTED } from '../../core/work-input.ts'
import { retryTransient } from '../retry.ts'
import { openWith, sealWith } from '../sealing.ts'
import { expand, fromBytes, squeeze, toBytes } from './frame.ts'
import type { PayloadStore } from './store.ts'
import { type DataKey, type TenantKeys, tenantOf } from './tenant-keys.ts'

const ENCODING = 'encoding'
const KEY_ID = 'encryption-key-id'
/** Digest of the workflow id that a payload is bound to; absent if it is bound to none. */
const BOUND_TO = 'tenon-bound-to'
/** `data` is the ciphertext. */
const INLINE = 'binary/tenon-encrypted'
/** `data` is the name of an object that has it, below the tenant and the number of the key. */
const CLAIM = 'binary/tenon-claim'

const { inlineBytesMax, keptBytesMax } = LIMITS.payloads

/** For how many milliseconds it asks for a server that is away: a worker waits, a request does not. */
export type Patience = Readonly<Record<SerializationContext['type'], number>>

/** The owner of a payload and the workflow that it is bound to, as far as its context says. */
interface About {
  readonly tenantId: TenantId | undefined
  /** {@link bindingOf} the workflow; undefined without a context. */
  readonly binding: string | undefined
  readonly isLocalActivity: boolean
  /** How many milliseconds it may take. */
  readonly patienceMs: number
}

interface Opened {
  readonly key: DataKey
  readonly plain: Buffer
  readonly isClaim: boolean
}

export class TenantCodec implements PayloadCodec {
  readonly #keys: TenantKeys
  readonly #store: PayloadStore
  readonly #patience: Patience
  /** What was read or stored not long ago, by its name. */
  readonly #kept = new LRUCache<string, Buffer>({
    maxSize: keptBytesMax,
    sizeCalculation: ({ length }) => length,
  })

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

  /** Encodes for a tenant without a workflow: people can read these payloads, and workers reject them. */
  encodeFor(tenantId: TenantId, payloads: readonly Payload[]): Promise<Payload[]> {
    const about = { tenantId, binding: undefined, isLocalActivity: false, patienceMs: 0 }
    return Promise.all(payloads.map((payload) => this.#encodeOne(payload, about)))
  }

  /**
   * Without a context (for people who read), payloads that are not encoded stay as they are. With one, each payload that the
   * platform has not sealed for that workflow becomes a payload of the encoding {@link REJECTED}, which no converter reads.
   * @throws Problem `payload_unreadable` without a context, if it was changed or its key was destroyed;
   *   `dependency_unavailable`
   */
  decode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    const about = this.#about(context)
    if (context === undefined) return Promise.all(payloads.map((payload) => this.#decodeOne(payload, about)))
    return Promise.all(payloads.map((payload) => this.#decodeTrusted(payload, about)))
  }

  #about(context: SerializationContext | undefined): About {
    const id = context?.workflowId
    return {
      tenantId: id === undefined ? undefined : refOf(id)?.tenantId,
      binding: id === undefined ? undefined : bindingOf(id),
      isLocalActivity: context?.type === 'activity' && context.isLocal,
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

  async #encodeOne(payload: Payload, { tenantId, binding, patienceMs }: About): Promise<Payload> {
    if (tenantId === undefined) throw new TypeError('A payload of no tenant is not sent')
    const key = await retryTransient(patienceMs, () => this.#keys.newest(tenantId))
    const bytes = toBytes(payload)
    const squeezed = await squeeze(bytes)
    if (squeezed.length <= inlineBytesMax) return encoded(INLINE, key, squeezed, binding)
    const digest = createHmac('sha256', key.secret).update(bytes).digest('hex')
    await retryTransient(patienceMs, () => this.#deposit(key, nameOf(key, digest), bytes, squeezed))
    return encoded(CLAIM, key, Buffer.from(digest), binding)
  }

  /** The same content has one name with one key, so that it is stored once. */
  async #deposit(key: DataKey, name: string, bytes: Buffer, squeezed: Buffer): Promise<void> {
    if (this.#kept.get(name) !== undefined) return
    await this.#store.put(name, sealWith(key.secret, squeezed, key.id))
    this.#kept.set(name, bytes)
  }

  async #decodeTrusted(payload: Payload, about: About): Promise<Payload> {
    if (!isEncoded(payload)) return unsealed(payload, about)
    if (textOf(payload, BOUND_TO) !== about.binding) return rejected()
    const sealed = await this.#open(payload, about).catch((error: unknown) => {
      if (error instanceof Problem && error.code === 'payload_unreadable') return undefined
      throw error
    })
    return sealed === undefined ? rejected() : this.#contentOf(sealed, about)
  }

  async #decodeOne(payload: Payload, about: About): Promise<Payload> {
    return isEncoded(payload) ? this.#contentOf(await this.#open(payload, about), about) : payload
  }

  /** Verifies what is sealed: the content itself, or its name in the object store. */
  async #open(payload: Payload, { tenantId, patienceMs }: About): Promise<Opened> {
    const id = textOf(payload, KEY_ID) ?? ''
    if (tenantId !== undefined && tenantOf(id) !== tenantId) throw unreadable()
    const key = await retryTransient(patienceMs, () => this.#keys.of(id))
    const encoding = textOf(payload, ENCODING) ?? ''
    const sealed = Buffer.from(payload.data ?? [])
    const plain = opened(key, sealed, aboutOf(encoding, key, textOf(payload, BOUND_TO)))
    return { key, plain, isClaim: encoding === CLAIM }
  }

  async #contentOf({ key, plain, isClaim }: Opened, { patienceMs }: About): Promise<Payload> {
    if (!isClaim) return fromBytes(await expand(plain))
    return fromBytes(await retryTransient(patienceMs, () => this.#fetch(key, nameOf(key, plain.toString()))))
  }

  async #fetch(key: DataKey, name: string): Promise<Buffer> {
    const known = this.#kept.get(name)
    if (known !== undefined) return known
    const bytes = await expand(opened(key, await this.#store.get(name), key.id))
    this.#kept.set(name, bytes)
    return bytes
  }
}

/** Whose an encoded payload is; undefined for any other. */
export function holderOf(payload: Payload): TenantId | undefined {
  return isEncoded(payload) ? tenantOf(textOf(payload, KEY_ID) ?? '') : undefined
}

function isEncoded(payload: Payload): boolean {
  const encoding = textOf(payload, ENCODING)
  return encoding === INLINE || encoding === CLAIM
}

function textOf({ metadata }: Payload, name: string): string | undefined {
  const value = metadata?.[name]
  return value == null ? undefined : Buffer.from(value).toString()
}

function encoded(encoding: string, key: DataKey, plain: Buffer, binding: string | undefined): Payload {
  return {
    metadata: {
      [ENCODING]: Buffer.from(encoding),
      [KEY_ID]: Buffer.from(key.id),
      ...(binding !== undefined && { [BOUND_TO]: Buffer.from(binding) }),
    },
    data: sealWith(key.secret, plain, aboutOf(encoding, key, binding)),
  }
}

/** What the seal vouches for besides the content (AEAD's associated data). */
const aboutOf = (encoding: string, key: DataKey, binding: string | undefined) =>
  `${encoding} ${key.id} ${binding ?? ''}`

/** 128 bits that stand for a workflow id; runs of one schedule share it. */
const bindingOf = (workflowId: string) =>
  createHash('sha256').update(withoutScheduledTime(workflowId)).digest().toString('base64url', 0, 16)

/**
 * An argument of a local activity has not left this process. A line for operators is never taken for a value (the converter of
 * workflows rejects it). A part of a failure that could not be encrypted says so, whatever it says itself.
 */
function unsealed(payload: Payload, { isLocalActivity }: About): Payload {
  const mark = textOf(payload, MARK) as Mark | undefined
  if (mark === 'inside' && isLocalActivity) return payload
  if (mark === 'failure' || mark === 'detail') return withheld(mark)
  if (mark !== 'open') return rejected()
  const { [PURPOSE]: _, ...metadata } = payload.metadata ?? {}
  return { ...payload, metadata }
}

const rejected = (): Payload => ({ metadata: { [ENCODING]: Buffer.from(REJECTED) }, data: new Uint8Array() })

/** `<tenant>/<number of the key>/<digest>`: what a tenant has, and what a key reads, lie together. */
const nameOf = (key: DataKey, digest: string) => `${key.id.replace('.', '/')}/${digest}`

/** @throws Problem `payload_unreadable` where it is not what the key has sealed */
function opened(key: DataKey, sealed: Buffer, about: string): Buffer {
  try {
    return openWith(key.secret, sealed, about)
  } catch (cause) {
    throw unreadable(cause)
  }
}

/** What stands in a failure in place of what could not be encrypted. */
function withheld(mark: Mark): Payload {
  const said = { message: 'Withheld: it could not be encrypted.', stack_trace: '' }
  const data = Buffer.from(JSON.stringify(mark === 'failure' ? said : null))
  return { metadata: { [ENCODING]: Buffer.from('json/plain'), [MARK]: Buffer.from(mark) }, data }
}

function unreadable(cause?: unknown): Problem {
  return new Problem('payload_unreadable', { detail: 'It was changed, or is another tenant’s.', cause })
}
