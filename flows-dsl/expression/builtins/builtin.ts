/** Knows the two kinds of builtins that are not written in jq. */

import type { Json } from '../../json.ts'
import type { Filter, Run } from '../filter.ts'

/** One value of an input and of arguments, which are values; of several, the last one is on the outside. */
export type ValueBuiltin = (run: Run, input: Json, a: Json, b: Json, c: Json) => Json

/** A filter of arguments that are filters. */
type FilterBuiltin = (a: Filter, b: Filter, c: Filter) => Filter

export type ValueBuiltins = Readonly<Record<string, ValueBuiltin>>
export type FilterBuiltins = Readonly<Record<string, FilterBuiltin>>
