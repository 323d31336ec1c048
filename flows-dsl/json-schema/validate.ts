/**
 * Validates data against JSON Schema 2020-12 with a step budget. Libraries do not fit: they match patterns with JavaScript
 * regular expressions, which may take exponential time, and count no steps.
 */

import { type Budget, checkDepth, spend } from '../budget.ts'
import type { Json } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'
import {
  ARRAYS,
  COMBINATIONS,
  type FormatTest,
  fail,
  Instance,
  OBJECTS,
  type Report,
  type Rule,
  SCALARS,
} from './keywords.ts'
import { referenceName } from './vocabulary.ts'

/** A violation. `pointer` is a JSON pointer into the value. */
export interface SchemaError {
  readonly pointer: string
  readonly message: string
  /** The keyword that the value fails; for a schema `false`, `additionalProperties` if that led to it, else `false`. */
  readonly keyword: string
  /** The name of a required property that is missing. */
  readonly missing?: string
}

/** Further errors are dropped. */
const ERRORS_MAX = 20

const RULES: ReadonlyMap<string, Rule> = new Map(
  Object.entries<Rule>({ ...SCALARS, ...ARRAYS, ...OBJECTS, ...COMBINATIONS, $ref: follow }),
)

/**
 * Validates a value against a schema that `checkSchema` has accepted.
 * @param budget is used up by the call
 * @param hasFormat tests texts against `format`, which is an annotation without it
 * @returns the first 20 violations
 * @throws FlowError (expression) if the budget is exhausted
 */
export function schemaErrors(
  schema: Json,
  value: Json,
  budget: Budget,
  hasFormat?: FormatTest,
): readonly SchemaError[] {
  const errors: SchemaError[] = []
  const report: Report = (instance, message, missing) => {
    if (errors.length >= ERRORS_MAX) return
    const { pointer, keyword } = instance
    errors.push({ pointer, message, keyword, ...(missing !== undefined && { missing }) })
  }
  const evaluation = { root: schema, budget, hasFormat, check, passes }
  check(schema, new Instance({ evaluation, report }, value, { depth: 1, keyword: '' }))
  return errors
}

function check(schema: Json, instance: Instance): void {
  const { budget, depth } = instance
  spend(budget, 1)
  checkDepth(budget, depth)
  if (schema === false) forbid(instance)
  if (!isObject(schema)) return
  for (const keyword of Object.keys(schema)) {
    spend(budget, 1)
    RULES.get(keyword)?.(schema[keyword] ?? null, instance.atKeyword(keyword), schema)
  }
}

function forbid(instance: Instance): void {
  fail(instance.keyword === 'additionalProperties' ? instance : instance.atKeyword('false'), 'is not allowed')
}

/** Tests if a value is valid, without reporting errors. */
function passes(schema: Json, instance: Instance): boolean {
  let isValid = true
  const report = () => {
    isValid = false
  }
  check(schema, instance.withReporter(report))
  return isValid
}

function follow(operand: Json, instance: Instance): void {
  const { root } = instance.evaluation
  const name = typeof operand === 'string' ? referenceName(operand) : undefined
  const definitions = isObject(root) ? fieldOf(root, '$defs') : undefined
  if (name === undefined || definitions === undefined || !isObject(definitions)) return
  check(fieldOf(definitions, name) ?? true, instance)
}
