/** Payloads of Temporal for people who may look at them: an operator at all, an admin at those of the own tenant. */

import type { Payload } from '@temporalio/common'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId } from '../../core/tenant.ts'
import { holderOf, type TenantCodec } from './codec.ts'

/** A payload as JSON has it (proto3 JSON mapping): bytes in base64. */
export interface WirePayload {
  readonly metadata?: Readonly<Record<string, string>>
  readonly data?: string
}

/** What the codec has made of payloads, as an admin's scope lends it. */
export class PayloadDesk {
  readonly #codec: TenantCodec
  readonly #tenantId: TenantId | undefined

  /** @param tenantId whose payloads may be seen; undefined: all tenants' */
  constructor(codec: TenantCodec, tenantId: TenantId | undefined) {
    this.#codec = codec
    this.#tenantId = tenantId
  }

  /**
   * In their order. Another tenant's stay as they are; what cannot be read any more says so.
   * @throws Problem `output_too_large`, `dependency_unavailable`
   */
  async decode(payloads: readonly WirePayload[]): Promise<WirePayload[]> {
    const read: WirePayload[] = []
    let bytes = 0
    // One after the other: a few hundred bytes may stand for megabytes.
    for (const payload of payloads) {
      const one = await this.#read(payload)
      bytes += one.data?.length ?? 0
      if (bytes > LIMITS.rowsBytesMax) throw new Problem('output_too_large')
      read.push(one)
    }
    return read
  }

  /** In their order. @throws Problem `payload_unreadable` where the tenant's keys were destroyed */
  async encode(tenantId: TenantId, payloads: readonly WirePayload[]): Promise<WirePayload[]> {
    return (await this.#codec.encodeFor(tenantId, payloads.map(fromWire))).map(toWire)
  }

  async #read(wire: WirePayload): Promise<WirePayload> {
    try {
      const payload = fromWire(wire)
      const holder = holderOf(payload)
      if (holder === undefined || (this.#tenantId !== undefined && holder !== this.#tenantId)) return wire
      const [plain] = await this.#codec.decode([payload])
      return plain === undefined ? wire : toWire(plain)
    } catch (error) {
      if (error instanceof Problem && error.code === 'payload_unreadable') return told(error)
      throw error
    }
  }
}

/** The tenants whose keys the payloads are encrypted with, as far as these say so. */
export function tenantsOf(payloads: readonly WirePayload[]): TenantId[] {
  const holders = payloads.map(({ metadata }) => namedHolder(fromWire({ metadata: metadata ?? {} })))
  return [...new Set(holders.filter((holder) => holder !== undefined))]
}

/** @returns undefined also if the id of the key is not one */
function namedHolder(payload: Payload): TenantId | undefined {
  try {
    return holderOf(payload)
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

/** In place of the value, where people look for it. */
function told({ code, message }: Problem): WirePayload {
  const data = Buffer.from(JSON.stringify({ unreadable: code, detail: message }))
  return toWire({ metadata: { encoding: Buffer.from('json/plain') }, data })
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
