/** Knows all builtins by name and arity: those of values, those of filters, and those that are written in jq. */

import { ARRAYS } from './arrays.ts'
import type { FilterBuiltins, ValueBuiltins } from './builtin.ts'
import { KINDS } from './kinds.ts'
import { MATH } from './math.ts'
import { PRELUDE } from './prelude.ts'
import { SELECTIONS } from './selections.ts'
import { STREAMS } from './streams.ts'
import { STRINGS } from './strings.ts'

export const VALUES: ValueBuiltins = { ...KINDS, ...ARRAYS, ...STRINGS, ...MATH }

export const FILTERS: FilterBuiltins = { ...STREAMS, ...SELECTIONS }

/** As `name/arity`; those that begin with `_` are parts of others. */
export const BUILTIN_NAMES: readonly string[] = [
  ...Object.keys(VALUES),
  ...Object.keys(FILTERS),
  ...Object.keys(PRELUDE),
  'not/0',
  'builtins/0',
]
