/** Knows whether a value is as a schema says (JSON Schema 2020-12). Interprets: nothing is compiled, all is paid for. */

import { type Budget, checkDepth, spend } from '../expression/budget.ts'
import type { Json } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'
import { ARRAYS } from './arrays.ts'
import { COMBINATIONS } from './combinations.ts'
import { OBJECTS } from './objects.ts'
import type { Place, Rule } from './rule.ts'
import { SCALARS } from './scalars.ts'
import { referenceName } from './vocabulary.ts'

/** What is wrong with a value. `pointer` is a JSON pointer into the value. */
export interface SchemaError {
  readonly pointer: string
  readonly message: string
}

/** Errors beyond this many are not told. */
const ERRORS_MAX = 20

const RULES: ReadonlyMap<string, Rule> = new Map(
  Object.entries<Rule>({ ...SCALARS, ...ARRAYS, ...OBJECTS, ...COMBINATIONS, $ref: follow }),
)

/**
 * Asks whether a value is as a schema says that `checkSchema` has let pass.
 * @param budget is used up by the call
 * @returns what is wrong, the first 20; empty where nothing is
 * @throws FlowError (expression) where the budget ends
 */
export function schemaErrors(schema: Json, value: Json, budget: Budget): readonly SchemaError[] {
  const errors: SchemaError[] = []
  const report = (error: SchemaError) => void (errors.length < ERRORS_MAX && errors.push(error))
  check(schema, { root: schema, value, pointer: '', depth: 1, budget, report, check, passes })
  return errors
}

function check(schema: Json, place: Place): void {
  const { budget, depth, pointer, report } = place
  spend(budget, 1)
  checkDepth(budget, depth)
  if (schema === false) report({ pointer, message: 'is not allowed' })
  if (!isObject(schema)) return
  const inner = { ...place, depth: depth + 1 }
  for (const [keyword, operand] of Object.entries(schema)) {
    spend(budget, 1)
    RULES.get(keyword)?.(operand, inner, schema)
  }
}

/** Whether a value is as a schema says, without a word about what is wrong. */
function passes(schema: Json, place: Place): boolean {
  let isSound = true
  const report = () => {
    isSound = false
  }
  check(schema, { ...place, report })
  return isSound
}

function follow(operand: Json, place: Place): void {
  const name = typeof operand === 'string' ? referenceName(operand) : undefined
  const definitions = isObject(place.root) ? fieldOf(place.root, '$defs') : undefined
  if (name === undefined || definitions === undefined || !isObject(definitions)) return
  check(fieldOf(definitions, name) ?? true, place)
}
