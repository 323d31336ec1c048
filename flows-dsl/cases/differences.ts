/** Knows where a value is not as it was expected. */

import type { Json } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'

/** `at` reads as a path: `output.lines[2].price`. Nothing is undefined. */
export interface Difference {
  readonly at: string
  readonly expected: Json | undefined
  readonly found: Json | undefined
}

/**
 * Every place where two values differ, in the order of what was expected.
 * @param partly whether objects may have more fields than expected
 */
export function differences(
  at: string,
  expected: Json | undefined,
  found: Json | undefined,
  partly: boolean,
): readonly Difference[] {
  if (isList(expected) && isList(found)) {
    const length = Math.max(expected.length, found.length)
    const indexes = Array.from({ length }, (_, index) => index)
    return indexes.flatMap((index) => differences(`${at}[${index}]`, expected[index], found[index], partly))
  }
  if (expected !== undefined && found !== undefined && isObject(expected) && isObject(found)) {
    const more = partly ? [] : Object.keys(found).filter((key) => !Object.hasOwn(expected, key))
    return [...Object.keys(expected), ...more].flatMap((key) =>
      differences(`${at}${step(key)}`, fieldOf(expected, key), fieldOf(found, key), partly),
    )
  }
  return expected === found ? [] : [{ at, expected, found }]
}

const isList = (value: Json | undefined): value is Json[] => Array.isArray(value)

const step = (key: string) => (/^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`)
