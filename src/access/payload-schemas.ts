/**
 * Payloads in output schemas: members with the data of executions and runs, which are left out for a caller without the right to see
 * them. payload-access.ts decides for whom.
 */

import Type from 'typebox'
import { isObject } from '../core/json.ts'

const KEYWORD = 'x-payload'

/** Options of the schema of a payload. @param shown its own members that are no payload; by default all of it is one */
export const payload = (...shown: readonly string[]) => ({ [KEYWORD]: shown })

/** What everybody may know of an error of a flow: not its texts, which quote data. */
export const FLOW_ERROR = payload('type', 'status', 'instance')

/** For objects that have members with payloads. */
export const HIDDEN_PAYLOADS = {
  payloads: Type.Optional(
    Type.Literal('hidden', {
      description:
        'Sign that members of this object were left out, or shortened, because the caller may not see its payloads; absent if nothing was.',
    }),
  ),
}

/** The parts of a JSON Schema that are read here. */
interface Shape {
  readonly [KEYWORD]?: readonly string[]
  readonly anyOf?: readonly Shape[]
  readonly items?: Shape
  readonly properties?: Readonly<Record<string, Shape>>
}

/** True if some member of the schema is a payload. */
export function hasPayloads(schema: object): boolean {
  const { anyOf = [], items, properties = {}, [KEYWORD]: mark } = schema as Shape
  const inside = [...anyOf, ...(items === undefined ? [] : [items]), ...Object.values(properties)]
  return mark !== undefined || inside.some(hasPayloads)
}

/**
 * Leaves out what is a payload in a value, and says so in each object that lacks it. What is null has none.
 * @param isShown true for a record whose payloads the caller may see
 * @returns the same value if nothing was left out
 */
export function withoutPayloads<T>(schema: object, value: T, isShown: (record: object) => boolean): T {
  return without(schema as Shape, value, isShown) as T
}

function without(schema: Shape, value: unknown, isShown: (record: object) => boolean): unknown {
  if (Array.isArray(value)) {
    const { items } = variantWith('items', schema)
    return items === undefined
      ? value
      : sameIfEqual(
          value,
          value.map((one) => leftOf(items, one, isShown)),
        )
  }
  if (!isObject(value) || isShown(value)) return value
  const { properties = {} } = variantWith('properties', schema)
  const found = Object.entries(value).map(([name, member]) => {
    const shape = properties[name]
    return { name, member, shape, left: leftOf(shape, member, isShown) }
  })
  if (found.every(({ member, left }) => left === member)) return value
  const isHidden = found.some(({ shape, member, left }) => isMarked(shape) && left !== member)
  return {
    ...Object.fromEntries(found.flatMap(({ name, left }) => (left === undefined ? [] : [[name, left]]))),
    ...(isHidden && { payloads: 'hidden' }),
  }
}

/** True if it is a payload, or a list of payloads. */
const isMarked = (shape: Shape | undefined): boolean =>
  (shape?.[KEYWORD] ?? shape?.items?.[KEYWORD]) !== undefined

/** What stays of a member; undefined if nothing does. */
function leftOf(shape: Shape | undefined, member: unknown, isShown: (record: object) => boolean): unknown {
  const shown = shape?.[KEYWORD]
  if (shape === undefined || member === null) return member
  if (shown === undefined) return without(shape, member, isShown)
  if (shown.length === 0) return undefined
  if (!isObject(member)) return undefined
  const known = Object.entries(member).filter(([name]) => shown.includes(name))
  return known.length === Object.keys(member).length ? member : Object.fromEntries(known)
}

/** The variant of a union that is an object or a list, or the schema itself. */
const variantWith = (part: 'items' | 'properties', schema: Shape): Shape =>
  schema.anyOf?.find((one) => one[part] !== undefined) ?? schema

const sameIfEqual = (before: readonly unknown[], after: readonly unknown[]): readonly unknown[] =>
  after.every((one, at) => one === before[at]) ? before : after
