/** References between the operations of a batch: `{"$ref": 0}` stands for the id of the document of its first operation. */

import Type from 'typebox'
import { isObject, shortPointer } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'

export const OperationReference = Type.Object(
  {
    $ref: Type.Integer({
      minimum: 0,
      description: 'Index of an operation before this one, counted from 0: the id of its document.',
    }),
  },
  { additionalProperties: false },
)

/** The index that a value refers to; undefined if it is no reference. A `$ref` that is a text is a value like others. */
export function referenceIn(value: unknown): number | undefined {
  if (!isObject(value) || typeof value['$ref'] !== 'number') return undefined
  return Object.keys(value).length === 1 ? value['$ref'] : undefined
}

/** The members of an operation are two levels above the fields of its document. What is nested deeper is refused later. */
const DEPTH_MAX = CORE_LIMITS.documentDepthMax + 4

/** True if there is a reference in a value. Most batches have none, and their values are searched once. */
export function hasReference(value: unknown, depth = DEPTH_MAX): boolean {
  if (typeof value !== 'object' || value === null || depth === 0) return false
  if (referenceIn(value) !== undefined) return true
  const members = Array.isArray(value) ? value : Object.values(value)
  return members.some((member) => typeof member === 'object' && hasReference(member, depth - 1))
}

/** The references in a value, with their pointers. */
export function referencesIn(
  value: unknown,
  pointer: string,
  depth = DEPTH_MAX,
): { readonly pointer: string; readonly index: number }[] {
  if (typeof value !== 'object' || value === null || depth === 0) return []
  const index = referenceIn(value)
  if (index !== undefined) return [{ pointer, index }]
  return Object.entries(value).flatMap(([name, member]) =>
    referencesIn(member, `${pointer}/${shortPointer(name)}`, depth - 1),
  )
}

/**
 * The value with other values in place of some within it; the same value if there are none.
 * @param replacement undefined for a value that stays
 */
export function replaceWithin(
  value: unknown,
  replacement: (value: unknown) => unknown,
  depth = DEPTH_MAX,
): unknown {
  const found = replacement(value)
  if (found !== undefined) return found
  if (typeof value !== 'object' || value === null || depth === 0) return value
  const inside = (member: unknown) => replaceWithin(member, replacement, depth - 1)
  if (Array.isArray(value)) {
    const elements = value.map(inside)
    return elements.some((element, at) => element !== value[at]) ? elements : value
  }
  const members = Object.entries(value).map(([name, member]) => [name, member, inside(member)] as const)
  if (members.every(([, old, made]) => old === made)) return value
  return Object.fromEntries(members.map(([name, , made]) => [name, made]))
}
