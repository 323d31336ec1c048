/** Decodes UTF-8 without replacing bytes that are none: what is stored reads back as it was sent. */

import { isUtf8 } from 'node:buffer'
import { Problem } from '../problem.ts'

/**
 * The text of UTF-8 bytes, without a byte-order mark (RFC 8259 §8.1).
 * @param what the sender sent, for the text of the problem
 * @throws Problem `body_invalid` if the bytes are not UTF-8
 */
export function decodeUtf8(bytes: Uint8Array, what = 'The body'): string {
  if (!isUtf8(bytes)) throw new Problem('body_invalid', { detail: `${what} is not valid UTF-8.` })
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return text.startsWith('\uFEFF') ? text.slice(1) : text
}

/** True if each run of percent-escapes in a text spells UTF-8. */
export const escapesUtf8 = (text: string): boolean =>
  [...text.matchAll(/(?:%[0-9A-Fa-f]{2})+/g)].every(([run]) =>
    isUtf8(Buffer.from(run.replaceAll('%', ''), 'hex')),
  )
