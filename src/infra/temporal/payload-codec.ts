/**
 * The payload codec of Temporal: compresses, encrypts with the tenant’s key, binds to one workflow, stores large payloads as
 * objects. A worker accepts nothing else: a client without a key can neither make a payload nor move one to another workflow
 * (decision 21).
 */

import { createHash, createHmac } from 'node:crypto'
import { promisify } from 'node:util'
import { constants, deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from 'node:zlib'
import type { Payload, PayloadCodec, SerializationContext } from '@temporalio/common'
import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import { refOf, type TenantId, withoutScheduledTime } from '../../core/tenant.ts'
import { PAYLOAD_MARK, type PayloadMark, PURPOSE, REJECTED } from '../../core/work.ts'
import { decrypt, encrypt } from '../crypto/secrets.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { retryTransient } from '../retry.ts'
import { type DataKey, type PayloadKeys, tenantOf } from './payload-keys.ts'
import type { PayloadStore } from './payload-store.ts'

const ENCODING = 'encoding'
const KEY_ID = 'encryption-key-id'
/** {@link bindingOf} the workflow that a payload is bound to; absent if it is bound to none. */
const BOUND_TO = 'tenon-bound-to'
/** `data` is the ciphertext. */
const INLINE = 'binary/tenon-encrypted'
/** `data` is the name of an object that has it, below the tenant and the number of the key. */
const CLAIM = 'binary/tenon-claim'

const { inlineBytesMax, cacheBytesMax: keptBytesMax } = INFRA_LIMITS.payloads

/** For how many milliseconds calls of an unavailable server are retried: a worker waits, a request does not. */
export type RetryBudget = Readonly<Record<SerializationContext['type'], number>>

/** The owner of a payload and the workflow that it is bound to, if its context contains them. */
interface Association {
  readonly tenantId: TenantId | undefined
  /** {@link bindingOf} the workflow; undefined without a context. */
  readonly binding: string | undefined
  readonly isLocalActivity: boolean
  /** For how many milliseconds transient errors are retried. */
  readonly retryMs: number
}

interface Decrypted {
  readonly key: DataKey
  readonly plain: Buffer
  readonly isClaim: boolean
}

export class TenantCodec implements PayloadCodec {
  readonly #keys: PayloadKeys
  readonly #store: PayloadStore
  readonly #retryBudget: RetryBudget
  /** Large payloads that were read or stored recently, by the name of their object. */
  readonly #recent = new LRUCache<string, Buffer>({
    maxSize: keptBytesMax,
    sizeCalculation: ({ length }) => length,
  })

  constructor(keys: PayloadKeys, store: PayloadStore, retryBudget: RetryBudget) {
    this.#keys = keys
    this.#store = store
    this.#retryBudget = retryBudget
  }

  /**
   * Encrypts for the tenant of the workflow id.
   * @throws TypeError without a tenant: such a payload is not sent in the clear
   * @throws Problem `payload_unreadable` if the tenant's keys were destroyed, `dependency_unavailable`
   */
  encode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    const association = this.#associationOf(context)
    return Promise.all(payloads.map((payload) => this.#encodeMarked(payload, association)))
  }

  /** Encodes for a tenant without a workflow: people can read these payloads, and workers reject them. */
  encodeFor(tenantId: TenantId, payloads: readonly Payload[]): Promise<Payload[]> {
    const association = { tenantId, binding: undefined, isLocalActivity: false, retryMs: 0 }
    return Promise.all(payloads.map((payload) => this.#encodeOne(payload, association)))
  }

  /**
   * Without a context (for people), payloads that are not encoded stay as they are. With one, each payload that the
   * platform has not encrypted for that workflow becomes a payload of the encoding {@link REJECTED}, which no converter reads.
   * @throws Problem `payload_unreadable` without a context, if it was changed or its key was destroyed;
   *   `dependency_unavailable`
   */
  decode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    const association = this.#associationOf(context)
    if (context === undefined)
      return Promise.all(payloads.map((payload) => this.#decodeOne(payload, association)))
    return Promise.all(payloads.map((payload) => this.#decodeTrusted(payload, association)))
  }

  #associationOf(context: SerializationContext | undefined): Association {
    const id = context?.workflowId
    return {
      tenantId: id === undefined ? undefined : refOf(id)?.tenantId,
      binding: id === undefined ? undefined : bindingOf(id),
      isLocalActivity: context?.type === 'activity' && context.isLocal,
      retryMs: this.#retryBudget[context?.type ?? 'workflow'],
    }
  }

  async #encodeMarked(payload: Payload, association: Association): Promise<Payload> {
    const mark = textOf(payload, PAYLOAD_MARK) as PayloadMark | undefined
    if (mark === 'cleartext' || mark === 'local' || isEncoded(payload)) return payload
    if (mark === undefined) return this.#encodeOne(payload, association)
    // An error here, while a failure is reported, would end the worker.
    return this.#encodeOne(payload, association).catch(() => withheld(mark))
  }

  async #encodeOne(payload: Payload, { tenantId, binding, retryMs }: Association): Promise<Payload> {
    if (tenantId === undefined) throw new TypeError('a payload must have a tenant')
    const key = await retryTransient(retryMs, () => this.#keys.newest(tenantId))
    const bytes = toBytes(payload)
    const compressed = await compress(bytes)
    if (compressed.length <= inlineBytesMax) return encoded(INLINE, key, compressed, binding)
    const digest = createHmac('sha256', key.secret).update(bytes).digest('hex')
    await retryTransient(retryMs, () => this.#deposit(key, nameOf(key, digest), bytes, compressed))
    return encoded(CLAIM, key, Buffer.from(digest), binding)
  }

  /** Equal content under one key has one name, so it is stored once. */
  async #deposit(key: DataKey, name: string, bytes: Buffer, compressed: Buffer): Promise<void> {
    if (this.#recent.get(name) !== undefined) return
    await this.#store.put(name, encrypt(key.secret, compressed, key.id))
    this.#recent.set(name, bytes)
  }

  async #decodeTrusted(payload: Payload, association: Association): Promise<Payload> {
    if (!isEncoded(payload)) return unencrypted(payload, association)
    if (textOf(payload, BOUND_TO) !== association.binding) return rejected()
    const decrypted = await this.#decrypt(payload, association).catch((error: unknown) => {
      if (error instanceof Problem && error.code === 'payload_unreadable') return undefined
      throw error
    })
    return decrypted === undefined ? rejected() : this.#readContent(decrypted, association)
  }

  async #decodeOne(payload: Payload, association: Association): Promise<Payload> {
    return isEncoded(payload)
      ? this.#readContent(await this.#decrypt(payload, association), association)
      : payload
  }

  /** Decrypts the content itself, or its name in the object store. */
  async #decrypt(payload: Payload, { tenantId, retryMs }: Association): Promise<Decrypted> {
    const id = textOf(payload, KEY_ID) ?? ''
    if (tenantId !== undefined && tenantOf(id) !== tenantId) throw unreadable()
    const key = await retryTransient(retryMs, () => this.#keys.of(id))
    const encoding = textOf(payload, ENCODING) ?? ''
    const sealed = Buffer.from(payload.data ?? [])
    const plain = decryptWith(key, sealed, associatedDataOf(encoding, key, textOf(payload, BOUND_TO)))
    return { key, plain, isClaim: encoding === CLAIM }
  }

  async #readContent({ key, plain, isClaim }: Decrypted, { retryMs }: Association): Promise<Payload> {
    if (!isClaim) return fromBytes(await decompress(plain))
    return fromBytes(await retryTransient(retryMs, () => this.#fetch(key, nameOf(key, plain.toString()))))
  }

  async #fetch(key: DataKey, name: string): Promise<Buffer> {
    const known = this.#recent.get(name)
    if (known !== undefined) return known
    const bytes = await decompress(decryptWith(key, await this.#store.get(name), key.id))
    this.#recent.set(name, bytes)
    return bytes
  }
}

/** The tenant of an encoded payload; undefined for any other. */
export function tenantOfPayload(payload: Payload): TenantId | undefined {
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
    data: encrypt(key.secret, plain, associatedDataOf(encoding, key, binding)),
  }
}

/** The associated data of the encryption. */
const associatedDataOf = (encoding: string, key: DataKey, binding: string | undefined) =>
  `${encoding} ${key.id} ${binding ?? ''}`

/** `workspaceId` is `-` for work of the tenant as a whole. */
type Workspace = { readonly tenantId: TenantId; readonly workspaceId: string }

/** Characters of the part of a binding that names the workspace. */
const WORKSPACE_CHARS = 12

/** A 72-bit digest of the workspace of a workflow id, and a 128-bit digest of the id. All runs of a schedule share it. */
function bindingOf(id: string): string {
  const workflow = createHash('sha256').update(withoutScheduledTime(id)).digest().toString('base64url', 0, 16)
  return `${workspaceBindingOf(refOf(id))}${workflow}`
}

function workspaceBindingOf(ref: Workspace | undefined): string {
  const workspace = ref === undefined ? '' : `${ref.tenantId}:${ref.workspaceId}`
  return createHash('sha256').update(workspace).digest().toString('base64url', 0, 9)
}

/** True if a payload is bound to a workflow of the workspace. Decryption fails if the binding was changed. */
export function isPayloadOf(payload: Payload, ref: Workspace): boolean {
  return textOf(payload, BOUND_TO)?.slice(0, WORKSPACE_CHARS) === workspaceBindingOf(ref)
}

/**
 * Of unencrypted payloads, these are accepted: arguments of local activities, which have not left this process; summaries,
 * which the converter of workflows rejects as values; and parts of failures, whose content is replaced.
 */
function unencrypted(payload: Payload, { isLocalActivity }: Association): Payload {
  const mark = textOf(payload, PAYLOAD_MARK) as PayloadMark | undefined
  if (mark === 'local' && isLocalActivity) return payload
  if (mark === 'failure' || mark === 'detail') return withheld(mark)
  if (mark !== 'cleartext') return rejected()
  const { [PURPOSE]: _, ...metadata } = payload.metadata ?? {}
  return { ...payload, metadata }
}

const rejected = (): Payload => ({ metadata: { [ENCODING]: Buffer.from(REJECTED) }, data: new Uint8Array() })

/** `<tenant>/<number of the key>/<digest>`: one prefix for each tenant and each key. */
const nameOf = (key: DataKey, digest: string) => `${key.id.replace('.', '/')}/${digest}`

/** @throws Problem `payload_unreadable` unless it was encrypted with this key */
function decryptWith(key: DataKey, sealed: Buffer, associatedData: string): Buffer {
  try {
    return decrypt(key.secret, sealed, associatedData)
  } catch (cause) {
    throw unreadable(cause)
  }
}

/** Replaces a part of a failure that could not be encrypted. */
function withheld(mark: PayloadMark): Payload {
  const said = { message: 'The payload was withheld, because it could not be encrypted.', stack_trace: '' }
  const data = Buffer.from(JSON.stringify(mark === 'failure' ? said : null))
  return { metadata: { [ENCODING]: Buffer.from('json/plain'), [PAYLOAD_MARK]: Buffer.from(mark) }, data }
}

function unreadable(cause?: unknown): Problem {
  return new Problem('payload_unreadable', {
    detail: 'The payload was changed, or belongs to another tenant.',
    cause,
  })
}

const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

/** Fewer bytes are processed synchronously: another thread costs more. */
const SYNC_BYTES = 16_384
/** For JSON, slower levels cost more time than they save bytes. */
const LEVEL = constants.Z_BEST_SPEED
const PLAIN = Buffer.from([0])
const COMPRESSED = Buffer.from([1])

/** The length of the metadata, the metadata as JSON of base64, the data. */
function toBytes({ metadata, data }: Payload): Buffer {
  const texts = Object.entries(metadata ?? {}).map(([name, value]) => [
    name,
    Buffer.from(value).toString('base64'),
  ])
  const head = Buffer.from(JSON.stringify(Object.fromEntries(texts)))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(head.length)
  // Missing data is stored as an empty array.
  return Buffer.concat([length, head, Buffer.from(data ?? [])])
}

/** The inverse of {@link toBytes}. */
function fromBytes(bytes: Buffer): Payload {
  const end = 4 + bytes.readUInt32BE(0)
  const head: Record<string, string> = JSON.parse(bytes.subarray(4, end).toString())
  const metadata = Object.entries(head).map(([name, value]) => [name, Buffer.from(value, 'base64')])
  return { metadata: Object.fromEntries(metadata), data: bytes.subarray(end) }
}

/** Compresses if that makes the payload smaller; the first byte says whether. */
async function compress(bytes: Buffer): Promise<Buffer> {
  if (bytes.length <= INFRA_LIMITS.payloads.plainBytesMax) return Buffer.concat([PLAIN, bytes])
  const options = { level: LEVEL }
  const smaller = bytes.length <= SYNC_BYTES ? deflateRawSync(bytes, options) : await deflate(bytes, options)
  return Buffer.concat(smaller.length < bytes.length ? [COMPRESSED, smaller] : [PLAIN, bytes])
}

/** The inverse of {@link compress}. The bytes were encrypted with the tenant's key, so their size is trusted. */
async function decompress(compressed: Buffer): Promise<Buffer> {
  const bytes = compressed.subarray(1)
  if (compressed[0] !== COMPRESSED[0]) return bytes
  if (bytes.length > SYNC_BYTES) return inflate(bytes)
  try {
    return inflateRawSync(bytes, { maxOutputLength: 4 * SYNC_BYTES })
  } catch {
    // It expands to more than is processed synchronously.
    return inflate(bytes)
  }
}
