/** How much of what a flow hands to its calls is on its way: the room holds all of it, and one message takes so much. */

import type { Json } from '../../../flows-dsl/ir.ts'
import { LIMITS } from '../../core/limits.ts'

export class UnderWay {
  #bytes = 0
  #sent = 0

  /** @returns how to give it back; undefined where it is too much */
  take(bytes: number): (() => void) | undefined {
    const { stepInputBytesMax, callsUnderWayBytesMax, callsSentBytesMax } = LIMITS
    // More than this is in the object store by then.
    const sent = Math.min(bytes, LIMITS.payloads.inlineBytesMax)
    if (bytes > stepInputBytesMax || this.#bytes + bytes > callsUnderWayBytesMax) return undefined
    if (this.#sent + sent > callsSentBytesMax) return undefined
    this.#bytes += bytes
    this.#sent += sent
    return () => {
      this.#bytes -= bytes
      this.#sent -= sent
    }
  }
}

/** Bytes of a value as it travels: JSON in UTF-8. */
export function sizeOf(value: Json): number {
  return new TextEncoder().encode(JSON.stringify(value)).length
}
