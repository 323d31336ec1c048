/** Reads YAML of a project, and writes values into it so that comments, order and style of what does not change stay. */

import { isDeepStrictEqual } from 'node:util'
import { type Document, isMap, isScalar, isSeq, type Node, parseDocument, stringify } from 'yaml'

/** An alias may stand for a large value, and several of them for more than a machine has memory. */
const ALIASES_MAX = 100

/** Lines are never folded: a folded text is hard to compare. */
const STYLE = { lineWidth: 0 } as const

/** @param file names it in errors @throws Error if it is not one YAML document */
export const valueIn = (text: string, file: string): unknown => plainOf(documentIn(text, file), file)

function documentIn(text: string, file: string): Document {
  try {
    const document = parseDocument(text)
    const [error] = document.errors
    if (error !== undefined) throw error
    return document as unknown as Document
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function plainOf(document: Document, file: string): unknown {
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX }) as unknown
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** The text with another value; the same text if it has this value already. @param text undefined for a new file */
export function withValue(text: string | undefined, value: unknown, file: string): string {
  if (text === undefined || text.trim() === '') return stringify(value, STYLE)
  const document = documentIn(text, file)
  if (isDeepStrictEqual(plainOf(document, file), value)) return text
  document.contents = changed(document, document.contents, value) as typeof document.contents
  return document.toString(STYLE)
}

type Json = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const plain = (document: Document, node: unknown): unknown =>
  node === null ? null : (node as Node).toJS(document, { maxAliasCount: ALIASES_MAX })

function changed(document: Document, node: unknown, value: unknown): Node {
  if (node !== null && node !== undefined && isDeepStrictEqual(plain(document, node), value))
    return node as Node
  if (isMap(node) && isObject(value)) return changedMap(document, node, value)
  if (isSeq(node) && Array.isArray(value)) return changedList(document, node, value)
  if (isScalar(node) && !isObject(value) && !Array.isArray(value)) {
    node.value = value
    return node
  }
  return document.createNode(value) as Node
}

function changedMap(document: Document, map: Node & { items: unknown[] }, value: Json): Node {
  const pairs = map.items as { key: unknown; value: unknown }[]
  const nameOf = (key: unknown) => String(isScalar(key) ? key.value : key)
  map.items = pairs.filter(({ key }) => Object.hasOwn(value, nameOf(key)))
  for (const pair of map.items as typeof pairs)
    pair.value = changed(document, pair.value, value[nameOf(pair.key)])
  const known = new Set(pairs.map(({ key }) => nameOf(key)))
  for (const [name, member] of Object.entries(value))
    if (!known.has(name)) map.items.push(document.createPair(name, member))
  return map
}

/** Items that are equal keep their nodes wherever they are; others change the node at their place. */
function changedList(document: Document, list: Node & { items: unknown[] }, value: readonly unknown[]): Node {
  const left = new Set(list.items)
  const equal = value.map((item) => {
    const found = [...left].find((node) => isDeepStrictEqual(plain(document, node), item))
    if (found !== undefined) left.delete(found)
    return found
  })
  const before = list.items
  list.items = value.map((item, at) => {
    const node = equal[at] ?? (left.has(before[at]) ? before[at] : undefined)
    return node === undefined ? document.createNode(item) : changed(document, node, item)
  })
  return list
}
