/** Knows all builtins by name and arity: those of values, those of filters, and those that are written in jq. */

import { oneValue } from '../filter.ts'
import { ARRAYS } from './arrays.ts'
import type { FilterBuiltins, ValueBuiltins } from './builtin.ts'
import { DATES } from './dates.ts'
import { KINDS } from './kinds.ts'
import { MATH } from './math.ts'
import { PRELUDE } from './prelude.ts'
import { REGEX } from './regex.ts'
import { SELECTIONS } from './selections.ts'
import { STREAMS } from './streams.ts'
import { STRINGS } from './strings.ts'

export const VALUES: ValueBuiltins = { ...KINDS, ...ARRAYS, ...STRINGS, ...MATH, ...REGEX, ...DATES }

export const FILTERS: FilterBuiltins = { ...STREAMS, ...SELECTIONS }

/** As `name/arity`; those that begin with `_` are parts of others. */
export const BUILTIN_NAMES: readonly string[] = [
  ...Object.keys(VALUES),
  ...Object.keys(FILTERS),
  ...Object.keys(PRELUDE),
  'not/0',
  'builtins/0',
]

const ONE = oneValue(() => null)
const MANY = { ...ONE, one: undefined }

/** Whether a builtin yields exactly one value; those that are written in jq are taken not to. */
export function builtinYieldsOne(name: string, argumentsDo: boolean): boolean {
  if (Object.hasOwn(VALUES, name)) return argumentsDo
  const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined
  const argument = argumentsDo ? ONE : MANY
  return name === 'not/0' || name === 'builtins/0' || filter?.(argument, argument, argument).one !== undefined
}
