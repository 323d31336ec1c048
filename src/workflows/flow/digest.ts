/** Computes digests of JSON values within a workflow, where Node's own are not to be had. */

import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { Json } from '../../../flows-dsl/ir.ts'
import { canonical } from '../../core/json.ts'

/** SHA-256 (FIPS 180-4) of a value as canonical JSON (RFC 8785), 64 hexadecimal digits. */
export function digestOf(value: Json): string {
  return bytesToHex(sha256(utf8ToBytes(canonical(value))))
}
