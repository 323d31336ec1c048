/** The source nodes of a definition: its values, each with its location in the source. */

import { type Json, objectOf, unescaped } from '../json.ts'

/** `line` and `column` (in UTF-16 units) count from 1. */
export interface Location {
  readonly line: number
  readonly column: number
  readonly pointer: string
}

export type SourceNode = ScalarNode | ListNode | MapNode | RejectedNode

export interface ScalarNode extends Location {
  readonly kind: 'scalar'
  readonly value: string | number | boolean | null
  /** The location of a character of the value if the source shows the value verbatim, or else of the value. */
  readonly locationOf: (offset: number) => Location
}

interface ListNode extends Location {
  readonly kind: 'list'
  readonly items: readonly SourceNode[]
}

export interface MapNode extends Location {
  readonly kind: 'map'
  readonly entries: readonly MapEntry[]
}

export interface MapEntry {
  readonly key: string
  readonly at: Location
  readonly value: SourceNode
}

/** A value that has a diagnostic already. */
export interface RejectedNode extends Location {
  readonly kind: 'refused'
}

export function entryOf(map: MapNode, key: string): MapEntry | undefined {
  return map.entries.find((entry) => entry.key === key)
}

export function valueAt(map: MapNode, key: string): SourceNode | undefined {
  return entryOf(map, key)?.value
}

/** The value without its locations; a rejected value is null. */
export function nodeToJson(node: SourceNode): Json {
  if (node.kind === 'scalar') return node.value
  if (node.kind === 'list') return node.items.map(nodeToJson)
  if (node.kind === 'refused') return null
  return objectOf(node.entries.map(({ key, value }) => [key, nodeToJson(value)]))
}

/** The node at a JSON pointer, with the location of its key, or of the item if it is in a list. */
export function nodeAt(root: SourceNode, pointer: string): { at: Location; value: SourceNode } | undefined {
  let found: { at: Location; value: SourceNode } | undefined = { at: root, value: root }
  for (const step of pointer.split('/').slice(1)) {
    const key = unescaped(step)
    const value: SourceNode | undefined = found?.value
    if (value?.kind === 'map') found = entryOf(value, key)
    else {
      const item: SourceNode | undefined = value?.kind === 'list' ? value.items[Number(key)] : undefined
      found = item && { at: item, value: item }
    }
  }
  return found
}

/** The type of a node, as messages call it. */
export function describeNode(node: SourceNode): string {
  if (node.kind === 'map') return 'a mapping'
  if (node.kind === 'list') return 'a list'
  if (node.kind === 'refused') return 'refused'
  return node.value === null ? 'empty' : `a ${typeof node.value}`
}
