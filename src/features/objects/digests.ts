/** Digests that a sender announces for the bytes of an upload: `Content-MD5` (RFC 1864), `Content-Digest` and `Repr-Digest` (RFC 9530). */

import { createHash } from 'node:crypto'
import { Problem } from '../../core/problem.ts'

export interface AnnouncedDigests {
  readonly content_md5?: string | undefined
  readonly content_digest?: string | undefined
  readonly repr_digest?: string | undefined
}

/** A digest that the bytes of an upload must have. */
export interface Verification {
  /** The header that announces it. */
  readonly header: string
  readonly sum: { update(chunk: Uint8Array): void; digest(): Uint8Array | Promise<Uint8Array> }
  /** Asked after all bytes have come, since some follow them. */
  readonly expected: () => Uint8Array
  /** Default: `digest_mismatch`. */
  readonly problem?: 'XAmzContentSHA256Mismatch'
}

/** RFC 9530 §5; the other algorithms of its registry are deprecated. */
const ALGORITHMS = { 'sha-256': 'sha256', 'sha-512': 'sha512' } as const
const BYTES = { md5: 16, sha256: 32, sha512: 64 }

/**
 * Passes an upload on, the last chunk only after the digest of all bytes was compared: of a body that differs, the store never
 * gets the end.
 * @throws Problem `digest_mismatch`, or that of the verification
 */
export async function* verified(
  chunks: AsyncIterable<Uint8Array>,
  announced: readonly Verification[],
): AsyncGenerator<Uint8Array> {
  if (announced.length === 0) return yield* chunks
  let last: Uint8Array | undefined
  for await (const chunk of chunks) {
    if (last !== undefined) yield last
    for (const { sum } of announced) sum.update(chunk)
    last = chunk
  }
  for (const { header, expected, sum, problem = 'digest_mismatch' } of announced) {
    if (Buffer.from(await sum.digest()).equals(expected())) continue
    const detail = `The body does not have the digest of ${header}. Nothing was stored: send it again.`
    throw new Problem(problem, { detail })
  }
  if (last !== undefined) yield last
}

/** @throws Problem `header_invalid` for a header that is malformed, or has no known algorithm */
export function expectedDigests({
  content_md5,
  content_digest,
  repr_digest,
}: AnnouncedDigests): readonly Verification[] {
  return [
    ...(content_md5 === undefined ? [] : [expect('Content-MD5', 'md5', content_md5)]),
    ...digestsIn('Content-Digest', content_digest),
    ...digestsIn('Repr-Digest', repr_digest),
  ]
}

/** A dictionary of byte sequences (RFC 8941 §3.2, §3.3.5): `sha-256=:…:`. Unknown algorithms beside a known one are ignored. */
function digestsIn(header: string, text: string | undefined): Verification[] {
  if (text === undefined) return []
  const found = text.split(',').flatMap((member) => {
    const [, name = '', base64 = ''] = /^\s*([\w-]+)=:([A-Za-z0-9+/]*={0,2}):\s*$/.exec(member) ?? []
    const algorithm = ALGORITHMS[name as keyof typeof ALGORITHMS]
    return algorithm === undefined ? [] : [expect(header, algorithm, base64)]
  })
  if (found.length > 0) return found
  throw new Problem('header_invalid', {
    detail: `${header} has no supported digest. Write \`sha-256=:<base64>:\` or \`sha-512=:<base64>:\`.`,
  })
}

/** A digest of so many bytes in base64, in the one form that it has; undefined for any other text. */
export function readDigest(base64: string, bytes: number | undefined): Buffer | undefined {
  const digest = Buffer.from(base64, 'base64')
  return digest.byteLength === bytes && digest.toString('base64') === base64 ? digest : undefined
}

function expect(header: string, algorithm: keyof typeof BYTES, base64: string): Verification {
  const digest = readDigest(base64, BYTES[algorithm])
  if (digest !== undefined) return { header, sum: createHash(algorithm), expected: () => digest }
  throw new Problem('header_invalid', {
    detail: `${header} is not a digest of ${BYTES[algorithm]} bytes in base64.`,
  })
}
