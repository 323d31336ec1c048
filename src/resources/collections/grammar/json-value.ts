/** JSON values that a query compares with: what of them no document could hold is refused. */

import { isObject } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { Json } from '../../../core/work.ts'
import type { Literal, Members } from './filter.ts'
import { checkText, refusal, type Source } from './text.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Refuses more names and values than any query needs, before somebody looks at each. */
export function checkParts(filter: JsonObject, source: Source): void {
  const open: object[] = [filter]
  let parts = 0
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    const members = Object.values(value)
    parts += members.length
    if (parts > LIMITS.filterPartsMax)
      throw refusal(source, `A filter has at most ${LIMITS.filterPartsMax} names and values in all.`)
    for (const member of members) if (typeof member === 'object' && member !== null) open.push(member)
  }
}

/** Depth first: what comes is as deep as its sender liked. */
export function checkJson(value: unknown, source: Source, depth = 1): Json {
  if (typeof value === 'string') checkText(value, source)
  // JSON has no infinity: written down again it would be null.
  if (typeof value === 'number' && !Number.isFinite(value))
    throw refusal(source, 'A number is larger than any that is kept.')
  if (typeof value === 'object' && value !== null) checkInside(value, source, depth)
  return value as Json
}

function checkInside(value: object, source: Source, depth: number): void {
  if (depth > LIMITS.documentDepthMax)
    throw refusal(source, 'A value is nested deeper than a document can be.')
  for (const [name, member] of Object.entries(value)) {
    checkText(name, source)
    checkJson(member, source, depth + 1)
  }
}

/** Refuses more elements than a list may have. */
export function checkElements(elements: readonly unknown[], source: Source): void {
  if (elements.length <= LIMITS.filterValuesMax) return
  const detail = `A list has at most ${LIMITS.filterValuesMax} elements; this one has ${elements.length}.`
  throw refusal({ ...source, code: 'filter_too_large' }, detail, 'Ask in several queries.')
}

/** What an array or an object is compared with. */
export type Container = { readonly values: readonly Literal[] } | { readonly members: Members }

/** @throws Problem where it is neither an array nor an object */
export function containerOf(value: unknown, source: Source): Container {
  const json = checkJson(value, source)
  if (isObject(json)) return { members: json as Members }
  if (!Array.isArray(json)) throw refusal(source, 'cs, cd and ov take an array or an object.')
  checkElements(json, source)
  return { values: json.map((element): Literal => [element]) }
}
