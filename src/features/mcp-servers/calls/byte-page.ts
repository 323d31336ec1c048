/** A part of a text or binary file, of a size that a client takes, as content of MCP. */

import type { OutputForm } from '../tool.ts'
import type { Content } from './content.ts'
import { delimitUntrusted } from './untrusted-text.ts'

/** Bytes of the result that are left for what describes the page. */
const DESCRIPTION_BYTES = 800

/** A page, or with neither `text` nor `base64` the description of a file that is too large for one. */
export interface BytePage {
  readonly uri: string
  readonly name: string
  readonly mimeType: string
  /** Bytes of the whole file. */
  readonly size: number
  /** Offset of the first byte of the page. */
  readonly offset: number
  /** Offset of the first byte of the next page; null after the last one. */
  readonly next: number | null
  readonly text?: string
  readonly base64?: string
}

/** True for media types whose content models read as text. */
export const isTextType = (mimeType: string) =>
  /^(text\/.*|application\/(json|xml|yaml|x-yaml|toml|javascript|sql|x-ndjson|graphql)|.*\+(json|xml|yaml))$/.test(
    mimeType,
  )

/** How many bytes of a file to read for a page of at most `bytesMax` bytes, as text or base64. */
export function pageLength(mimeType: string, bytesMax: number): number {
  const room = Math.max(bytesMax - DESCRIPTION_BYTES, 16)
  // Whole groups of base64, so that pages can be joined.
  return isTextType(mimeType) ? room : Math.floor(room / 4) * 3
}

/** `text` of bytes that are UTF-8, apart from characters that their ends cut; else `base64`. */
export function pageOf(
  bytes: Buffer,
  file: Pick<BytePage, 'uri' | 'name' | 'mimeType' | 'size' | 'offset'>,
): BytePage {
  const { offset, size, mimeType } = file
  const end = offset + bytes.length
  const text = isTextType(mimeType) ? textOf(bytes, offset > 0, end < size) : undefined
  if (text === undefined) return { ...file, next: end < size ? end : null, base64: bytes.toString('base64') }
  const last = end - text.cut
  return { ...file, next: last < size ? last : null, text: text.text }
}

/** The text without the characters that its ends cut, and how many bytes were cut at the end; undefined if it is not UTF-8. */
function textOf(
  bytes: Buffer,
  isAfterOthers: boolean,
  isBeforeOthers: boolean,
): { text: string; cut: number } | undefined {
  const begin = isAfterOthers ? bytes.subarray(0, 3).findIndex((byte) => !isContinuation(byte)) : 0
  const cut = isBeforeOthers ? cutBytes(bytes) : 0
  try {
    const whole = bytes.subarray(Math.max(begin, 0), bytes.length - cut)
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(whole), cut }
  } catch {
    return undefined
  }
}

const isContinuation = (byte: number) => (byte & 0xc0) === 0x80

/** The bytes of an incomplete character at the end (RFC 3629 §3). */
function cutBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (isContinuation(byte)) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? back : 0
  }
  return 0
}

/**
 * A page for a model: its data, then one line of JSON that describes it.
 * @param details further members of the description
 */
export function contentOfPage(
  page: BytePage,
  details: Readonly<Record<string, unknown>>,
  { asResource }: OutputForm,
): Content[] {
  if (asResource) return resourceContents(page)
  const { size, offset, next } = page
  const description = {
    ...details,
    content_type: page.mimeType,
    size,
    ...((offset > 0 || next !== null) && { offset, next_offset: next }),
  }
  return [dataOf(page), { type: 'text', text: JSON.stringify(description) }]
}

function dataOf({ uri, name, mimeType, size, offset, next, text, base64 }: BytePage): Content {
  if (text !== undefined) return { type: 'text', text: delimitUntrusted(text) }
  if (base64 === undefined) return { type: 'resource_link', uri, name, mimeType, size }
  const [kind] = mimeType.split('/')
  const isWhole = offset === 0 && next === null
  if (isWhole && (kind === 'image' || kind === 'audio')) return { type: kind, data: base64, mimeType }
  return { type: 'resource', resource: { uri, mimeType, blob: base64 } }
}

/** The data, and a link to the rest. */
function resourceContents({ uri, name, mimeType, size, next, text, base64 = '' }: BytePage): Content[] {
  const resource = text === undefined ? { uri, mimeType, blob: base64 } : { uri, mimeType, text }
  const rest = { type: 'resource_link' as const, uri: `${uri}?offset=${next}`, name, mimeType, size }
  return [{ type: 'resource', resource }, ...(next === null ? [] : [rest])]
}
