/** Decrypts payloads of Temporal for people: operators read all of them, admins those of their own tenant or workspace. */

import type { Payload } from '@temporalio/common'
import { Problem } from '../../core/problem.ts'
import type { TenantId } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { isPayloadOf, type TenantCodec, tenantOfPayload } from './payload-codec.ts'

/** A payload as JSON has it (proto3 JSON mapping): bytes in base64. */
export interface WirePayload {
  readonly metadata?: Readonly<Record<string, string>>
  readonly data?: string
}

/** The payloads that are decrypted: by default those of all tenants, and of all workspaces of a tenant. */
interface PayloadBounds {
  readonly tenantId?: TenantId | undefined
  readonly workspaceId?: string | undefined
}

export class PayloadReader {
  readonly #codec: TenantCodec
  readonly #bounds: PayloadBounds

  constructor(codec: TenantCodec, bounds: PayloadBounds) {
    this.#codec = codec
    this.#bounds = bounds
  }

  /**
   * Decrypts payloads in their order. Those out of bounds stay as they are; an unreadable one is replaced by its problem.
   * @throws Problem `output_too_large`, `dependency_unavailable`
   */
  async decode(payloads: readonly WirePayload[]): Promise<WirePayload[]> {
    const read: WirePayload[] = []
    let bytes = 0
    // Sequentially: a few hundred bytes may decompress to megabytes.
    for (const payload of payloads) {
      const one = await this.#read(payload)
      bytes += one.data?.length ?? 0
      if (bytes > INFRA_LIMITS.rowsBytesMax) throw new Problem('output_too_large')
      read.push(one)
    }
    return read
  }

  /** Encrypts payloads in their order. @throws Problem `payload_unreadable` if the tenant's keys were destroyed */
  async encode(tenantId: TenantId, payloads: readonly WirePayload[]): Promise<WirePayload[]> {
    return (await this.#codec.encodeFor(tenantId, payloads.map(fromWire))).map(toWire)
  }

  #includes(payload: Payload, holder: TenantId): boolean {
    const { tenantId, workspaceId } = this.#bounds
    if (tenantId !== undefined && holder !== tenantId) return false
    return workspaceId === undefined || isPayloadOf(payload, { tenantId: holder, workspaceId })
  }

  async #read(wire: WirePayload): Promise<WirePayload> {
    try {
      const payload = fromWire(wire)
      const holder = tenantOfPayload(payload)
      if (holder === undefined || !this.#includes(payload, holder)) return wire
      const [plain] = await this.#codec.decode([payload])
      return plain === undefined ? wire : toWire(plain)
    } catch (error) {
      if (error instanceof Problem && error.code === 'payload_unreadable') return unreadablePayload(error)
      throw error
    }
  }
}

/** The tenants whose keys the payloads name. */
export function tenantsOf(payloads: readonly WirePayload[]): TenantId[] {
  const holders = payloads.map(({ metadata }) => tenantNamedIn(fromWire({ metadata: metadata ?? {} })))
  return [...new Set(holders.filter((holder) => holder !== undefined))]
}

/** @returns undefined also if the key id is malformed */
function tenantNamedIn(payload: Payload): TenantId | undefined {
  try {
    return tenantOfPayload(payload)
  } catch (error) {
    if (error instanceof Problem) return undefined
    throw error
  }
}

function fromWire({ metadata, data }: WirePayload): Payload {
  const entries = Object.entries(metadata ?? {}).map(([name, text]) => [name, Buffer.from(text, 'base64')])
  return { metadata: Object.fromEntries(entries), data: Buffer.from(data ?? '', 'base64') }
}

function toWire({ metadata, data }: Payload): WirePayload {
  const entries = Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)])
  return { metadata: Object.fromEntries(entries), data: base64(data ?? new Uint8Array()) }
}

/** Shown in place of the value. */
function unreadablePayload({ code, message }: Problem): WirePayload {
  const data = Buffer.from(JSON.stringify({ unreadable: code, detail: message }))
  return toWire({ metadata: { encoding: Buffer.from('json/plain') }, data })
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
