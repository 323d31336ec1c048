/** Writes the XML of S3 replies, and reads that of requests. */

import { parseXML } from '@aws-sdk/xml-builder'
import type { FastifyReply } from 'fastify'
import { Problem } from '../../core/problem.ts'

/** The content of an element: text, or elements in order, of which those without content are left out. */
export type XmlContent =
  | string
  | number
  | boolean
  | readonly (readonly [name: string, content: XmlContent | undefined])[]

const HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/'

/** Sends a document whose root has S3's namespace. */
export const sendXml = ({ reply }: { readonly reply: FastifyReply }, root: string, content: XmlContent) =>
  reply
    .code(200)
    .type('application/xml')
    .send(`${HEAD}<${root} xmlns="${NAMESPACE}">${inner(content)}</${root}>`)

/** A document of an error, which has no namespace. */
export const errorDocument = (content: XmlContent): string => HEAD + element('Error', content)

const element = (name: string, content: XmlContent): string => `<${name}>${inner(content)}</${name}>`

function inner(content: XmlContent): string {
  if (typeof content !== 'object') return escapeText(String(content))
  return content.map(([name, value]) => (value === undefined ? '' : element(name, value))).join('')
}

/** Also control characters, which XML 1.0 has no way to write; S3 writes these references, and clients read them. */
const escapeText = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is escaped
  text.replaceAll(/[&<>"\u0000-\u001f\u007f\ufffe\uffff]/g, (character) => {
    return NAMED[character] ?? `&#x${character.charCodeAt(0).toString(16)};`
  })

const NAMED: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** An element that was read: its text, or its children by name. */
export type Element = string | { readonly [name: string]: Element | readonly Element[] }

/** DTD, CDATA, and references but those of XML itself, which the parser would read as nothing. */
const REFUSED = /<!(?!--)|&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)/

/**
 * The content of the root element.
 * @throws Problem `MalformedXML` for a document that is not well-formed, has another root, or a DTD
 */
export function readXml(text: string, root: string): Element {
  if (REFUSED.test(text)) throw new Problem('MalformedXML')
  try {
    const document = parseXML(withoutReferences(text)) as Readonly<Record<string, Element>>
    const content = document[root]
    if (content !== undefined) return content
  } catch (cause) {
    // A stack overflow of elements within elements, too.
    throw new Problem('MalformedXML', { cause })
  }
  throw new Problem('MalformedXML', { detail: `The document has no root element ${root}.` })
}

/** The parser reads references beyond U+FFFF as other characters. */
const withoutReferences = (text: string): string =>
  text.replaceAll(/&#(?:x([0-9a-fA-F]{1,6})|([0-9]{1,7}));/g, (reference, hex?: string, decimal?: string) => {
    const point = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    if (point > 0x10_ff_ff || (point >= 0xd8_00 && point <= 0xdf_ff)) throw new Problem('MalformedXML')
    return point > 0xff_ff ? String.fromCodePoint(point) : reference
  })

/** The children of a name. @throws Problem `MalformedXML` if the element is a text */
export function children(element: Element, name: string): readonly Element[] {
  if (typeof element === 'string') {
    if (element === '') return []
    throw new Problem('MalformedXML')
  }
  const found = Object.hasOwn(element, name) ? element[name] : undefined
  return found === undefined ? [] : ([found].flat() as Element[])
}

/** The text of a child; undefined if there is none. @throws Problem `MalformedXML` if there are several, or it has children */
export function childText(element: Element, name: string): string | undefined {
  const [first, ...more] = children(element, name)
  if (more.length > 0 || (first !== undefined && typeof first !== 'string')) throw new Problem('MalformedXML')
  return first
}
