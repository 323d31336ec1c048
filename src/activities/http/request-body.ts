/** Encodes the body and the query of `call: http` and `call: openapi` by content type: JSON, form, multipart, text. */

import { randomUUID } from 'node:crypto'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'

interface EncodedBody {
  readonly body?: string | Uint8Array
  /** The content type, if the body determines it. */
  readonly contentType?: string
}

export const FORM = 'application/x-www-form-urlencoded'
export const MULTIPART = 'multipart/form-data'

/** The media type without parameters, in lower case. */
export const mediaTypeOf = (contentType: string): string =>
  contentType.split(';')[0]?.trim().toLowerCase() ?? ''

/**
 * Encodes a body. Text is sent as it is; an object becomes a form or a multipart message if the content type says so, and JSON
 * otherwise.
 * @param contentType as the author gives it; empty if absent
 * @throws ApplicationFailure (validation) for a value that has no representation in that type
 */
export function encodeBody(value: unknown, contentType: string): EncodedBody {
  if (value === undefined || value === null) return {}
  const type = mediaTypeOf(contentType)
  if (type === MULTIPART) return multipartBody(value)
  if (typeof value === 'string') return { body: value }
  if (type === FORM)
    return { body: new URLSearchParams(pairsOf(requireObject(value, 'form'), 'body')).toString() }
  return { body: JSON.stringify(value), ...(type === '' && { contentType: 'application/json' }) }
}

/**
 * The pairs of a query or a form: a list is repeated, null is left out.
 * @param owner the argument, for messages
 * @throws ApplicationFailure (validation) for an object as a value
 */
export function pairsOf(values: Fields, owner: string): [name: string, value: string][] {
  return Object.entries(values).flatMap(([name, value]) =>
    listOf(value).map((one): [string, string] => [name, scalarText(one, name, owner)]),
  )
}

/** The items of a list without nulls, and any other value as a list of one. */
function listOf(value: unknown): readonly unknown[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value]
  return items.filter((one) => one !== null && one !== undefined)
}

function scalarText(value: unknown, name: string, owner: string): string {
  if (typeof value !== 'object') return String(value)
  const detail = `\`${name}\` of \`${owner}\` must be a string, number or boolean, or a list of them. Name nested fields as the server expects, such as \`${name}[id]\`.`
  throw callFailure('validation', detail)
}

function requireObject(value: unknown, kind: string): Fields {
  if (typeof value === 'object' && !Array.isArray(value)) return fieldsOf(value)
  throw callFailure('validation', `The body must be an object, because it is sent as a ${kind}.`)
}

/** A message of RFC 7578: one part for each field, and one for each item of a list. */
function multipartBody(value: unknown): EncodedBody {
  const boundary = `tenon-${randomUUID()}`
  const parts = Object.entries(requireObject(value, 'multipart form')).flatMap(([name, field]) =>
    listOf(field).map((one) => partOf(name, one)),
  )
  const chunks = parts.flatMap(({ head, content }) => [`--${boundary}\r\n${head}\r\n\r\n`, content, '\r\n'])
  const body = Buffer.concat([...chunks, `--${boundary}--\r\n`].map((one) => Buffer.from(one as string)))
  return { body, contentType: `${MULTIPART}; boundary=${boundary}` }
}

interface Part {
  readonly head: string
  readonly content: string | Uint8Array
}

const FILE_KEYS = new Set(['filename', 'contentType', 'content', 'base64'])

function partOf(name: string, value: unknown): Part {
  const disposition = `content-disposition: form-data; name="${quoted(name)}"`
  if (typeof value !== 'object') return { head: disposition, content: String(value) }
  const file = fieldsOf(value)
  const { filename, contentType = 'application/octet-stream' } = file
  const isFile = typeof filename === 'string' && Object.keys(file).every((key) => FILE_KEYS.has(key))
  if (!isFile || typeof contentType !== 'string' || /[\r\n]/.test(contentType)) {
    const detail = `\`${name}\` of \`body\` must be a string, number or boolean, or a file: {filename, contentType, content} with text, or {filename, contentType, base64}.`
    throw callFailure('validation', detail)
  }
  const head = `${disposition}; filename="${quoted(filename)}"\r\ncontent-type: ${contentType}`
  return { head, content: fileContent(file, name) }
}

function fileContent({ content, base64 }: Fields, name: string): string | Uint8Array {
  if (typeof base64 === 'string' && content === undefined) {
    if (/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) return Buffer.from(base64, 'base64')
    throw callFailure('validation', `\`base64\` of the file \`${name}\` is not base64.`)
  }
  if (base64 === undefined && content !== undefined)
    return typeof content === 'string' ? content : JSON.stringify(content)
  throw callFailure('validation', `The file \`${name}\` needs either \`content\` or \`base64\`.`)
}

/** Escapes a name in a header of a part (HTML Living Standard, "multipart/form-data encoding algorithm"). */
const quoted = (text: string) => text.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22')
