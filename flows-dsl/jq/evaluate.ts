/** Compiles and evaluates parsed expressions. Only expressions of the definition get here: data is never parsed. */

import { abort, type Budget, measure } from '../budget.ts'
import { fieldOf, type Json, type JsonObject } from '../json.ts'
import { FILTERS, PRELUDE, VALUES } from './builtins/builtins.ts'
import type { Expression, Node } from './expression.ts'
import { applied, CONTINUE, type EvalContext, type Filter, IDENTITY, NULL, tick } from './filter.ts'
import { JqError } from './jq-error.ts'
import { compileAs, compileForeach, compileReduce } from './nodes/bindings.ts'
import { callFunction, callParameter, compileDefine, defineFunction } from './nodes/calls.ts'
import { compileArray, compileFormat, compileObject, compileText } from './nodes/construction.ts'
import { compileBreak, compileIf, compileLabel, compileTry } from './nodes/control-flow.ts'
import {
  compileAlternative,
  compileBinary,
  compileComma,
  compileLiteral,
  compileLogic,
  compileNegate,
  compileNot,
  compilePipe,
  compileVariable,
} from './nodes/operators.ts'
import { compileAssign, compileIndex, compileIterate, compileSlice } from './nodes/paths.ts'
import { define } from './operators.ts'
import { parseExpression } from './parser/parse.ts'
import { type FunctionCell, Scope } from './scope.ts'

export { isTrue } from './operators.ts'

/** Values that an evaluation can read besides its input. */
export interface Environment {
  readonly variables: Readonly<Record<string, Json>>
  /** The execution's time in milliseconds, which is `now`. Evaluation never reads a clock. */
  readonly nowMs: number
}

/**
 * Evaluates a parsed expression that yields one value. No value counts as null.
 * @param input the value of `.`
 * @param budget is consumed by the call, so that several evaluations can share one
 * @throws FlowError (expression) if jq would fail, if there are several values, or if the budget is exhausted
 */
export function evaluate(
  expression: Expression,
  input: Json,
  environment: Environment,
  budget: Budget,
): Json {
  let output: Json | undefined
  runAll(expression, input, environment, budget, (value) => {
    if (output !== undefined) abort('The expression yields more than one value; collect them with [ … ].')
    output = value
  })
  return output === undefined ? null : toJson(output, budget)
}

/** All values that an expression yields. @throws FlowError (expression) as `evaluate`, but not for their number */
export function evaluateAll(
  expression: Expression,
  input: Json,
  environment: Environment,
  budget: Budget,
): Json[] {
  const outputs: Json[] = []
  runAll(expression, input, environment, budget, (value) => outputs.push(toJson(value, budget)))
  return outputs
}

function runAll(
  expression: Expression,
  input: Json,
  { variables, nowMs }: Environment,
  budget: Budget,
  receive: (value: Json) => void,
): void {
  const context: EvalContext = { budget, variables, nowMs, depth: 0, tail: undefined }
  try {
    const { one, each } = filterFor(expression)
    tick(context)
    if (one !== undefined) receive(one(context, undefined, input))
    else {
      each(context, undefined, input, (value) => {
        tick(context)
        receive(value)
        return CONTINUE
      })
    }
  } catch (error) {
    throw error instanceof JqError ? error.toFlowError() : error
  }
}

/** Replaces infinity by the largest double and NaN by null, as jq does when it prints. */
function toJson(value: Json, budget: Budget): Json {
  return measure(value, budget) ? value : finite(value)
}

function finite(value: Json): Json {
  if (typeof value === 'number') {
    return Number.isNaN(value) ? null : Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value))
  }
  if (Array.isArray(value)) return value.map(finite)
  if (typeof value !== 'object' || value === null) return value
  const object: JsonObject = {}
  for (const key of Object.keys(value)) define(object, key, finite(value[key] ?? null))
  return object
}

const COMPILED = new WeakMap<Expression, Filter>()

/** The filter of an expression; each expression is compiled once. */
function filterFor(expression: Expression): Filter {
  const known = COMPILED.get(expression)
  if (known !== undefined) return known
  const filter = compileNode(expression, new Scope(compileNode), false)
  COMPILED.set(expression, filter)
  return filter
}

type Compilers = {
  readonly [Op in Expression['op']]: (node: Node<Op>, scope: Scope, tail: boolean) => Filter
}

const COMPILERS: Compilers = {
  identity: () => IDENTITY,
  literal: compileLiteral,
  variable: compileVariable,
  index: compileIndex,
  slice: compileSlice,
  iterate: compileIterate,
  object: compileObject,
  array: compileArray,
  comma: compileComma,
  text: compileText,
  format: compileFormat,
  negate: compileNegate,
  not: compileNot,
  pipe: compilePipe,
  and: compileLogic,
  or: compileLogic,
  alternative: compileAlternative,
  binary: compileBinary,
  assign: compileAssign,
  if: compileIf,
  try: compileTry,
  as: compileAs,
  reduce: compileReduce,
  foreach: compileForeach,
  label: compileLabel,
  break: compileBreak,
  define: compileDefine,
  call: compileCall,
}

function compileNode(node: Expression, scope: Scope, tail: boolean): Filter {
  const compile = COMPILERS[node.op] as (node: Expression, scope: Scope, tail: boolean) => Filter
  return compile(node, scope.nested(node), tail)
}

function compileCall(node: Node<'call'>, scope: Scope, tail: boolean): Filter {
  const found = scope.findCallable(`${node.name}/${node.args.length}`)
  if (found === undefined) return callBuiltin(node, scope, tail)
  if (typeof found === 'number') return callParameter(found, scope)
  return callFunction(found, node.args, scope, tail)
}

const CELLS = new Map<string, FunctionCell>()

function callBuiltin(node: Node<'call'>, scope: Scope, tail: boolean): Filter {
  const name = `${node.name}/${node.args.length}`
  const value = fieldOf(VALUES, name)
  if (value !== undefined) {
    const args = node.args.map((arg) => scope.compile(arg))
    return applied(value, args)
  }
  const filter = fieldOf(FILTERS, name)
  if (filter === undefined) return callFunction(preludeCell(name, scope), node.args, scope, tail)
  const [a = NULL, b = NULL, c = NULL] = node.args.map((arg) => scope.compile(arg))
  return filter(a, b, c)
}

/** A builtin that is defined in jq, parsed and compiled at its first use. */
function preludeCell(name: string, scope: Scope): FunctionCell {
  const known = CELLS.get(name)
  if (known !== undefined) return known
  const parsed = parseExpression(`${fieldOf(PRELUDE, name) ?? ''} .`, [])
  if (!('op' in parsed && parsed.op === 'define'))
    throw new Error(`the definition of the builtin ${name} is invalid: ${JSON.stringify(parsed)}`)
  const cell = defineFunction(parsed, scope.empty())
  CELLS.set(name, cell)
  return cell
}
