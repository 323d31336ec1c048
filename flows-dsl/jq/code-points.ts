/** Counts, slices and searches strings by code point, as jq does. */

import { type Budget, chargeItems, spend } from '../budget.ts'

const SURROGATES = /[\ud800-\udfff]/

/** The number of code points of a text. */
export function countCodePoints(text: string, budget: Budget): number {
  spend(budget, text.length >> 5)
  if (!SURROGATES.test(text)) return text.length
  let count = 0
  for (let i = 0; i < text.length; i++) {
    if ((text.codePointAt(i) ?? 0) > 0xffff) i++
    count++
  }
  return count
}

/** The part of a text between two positions in code points; both are within it. */
export function sliceText(text: string, from: number, to: number, budget: Budget): string {
  spend(budget, text.length >> 5)
  if (!SURROGATES.test(text)) return text.slice(from, to)
  const begin = unitAt(text, 0, from)
  return text.slice(begin, unitAt(text, begin, to - from))
}

/** The position in UTF-16 units that many code points after another. */
function unitAt(text: string, start: number, points: number): number {
  let at = start
  for (let i = 0; i < points && at < text.length; i++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
  return at
}

/** The code points of a text. */
export function codePointsOf(text: string, budget: Budget): number[] {
  chargeItems(budget, text.length)
  const points: number[] = []
  for (let i = 0; i < text.length; i++) {
    const point = text.codePointAt(i) ?? 0
    points.push(point)
    if (point > 0xffff) i++
  }
  return points
}

/** Splits at each occurrence of the separator, or between all code points if it is empty. */
export function splitText(text: string, separator: string, budget: Budget): string[] {
  spend(budget, 1 + (text.length >> (separator === '' ? 1 : 3)))
  if (text === '') return []
  return separator === '' ? Array.from(text) : text.split(separator)
}

/** The positions, in code points, at which a text occurs in another; occurrences may overlap. */
export function positionsOf(text: string, part: string, budget: Budget): number[] {
  const places: number[] = []
  if (part === '') return places
  spend(budget, 1 + (text.length >> 3))
  const plain = !SURROGATES.test(text)
  let counted = 0
  let last = 0
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    spend(budget, 1 + (part.length >> 6))
    counted += plain ? at - last : countCodePoints(text.slice(last, at), budget)
    last = at
    places.push(counted)
  }
  return places
}
