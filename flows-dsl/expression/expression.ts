/** Knows what an expression is once parsed: a tree of plain JSON that the compiled flow carries. */

import type { Json } from '../json.ts'

export type BinaryOperator = '+' | '-' | '*' | '/' | '%' | '==' | '!=' | '<' | '<=' | '>' | '>='

/** `=` sets, `|=` passes each value through, the others calculate with what is there. */
export type AssignOperator = '=' | '|=' | '+=' | '-=' | '*=' | '/=' | '%=' | '//='

/** What stands behind `as`: a name for the value, or names for its parts. */
export type Pattern =
  | { readonly variable: string }
  | { readonly array: readonly Pattern[] }
  | { readonly object: readonly FieldPattern[] }

/** `variable` names the field itself, `value` its parts; one of them is there. */
export interface FieldPattern {
  readonly key: Expression
  readonly variable?: string
  readonly value?: Pattern
}

/** A part of jq as it is written, except that names of builtins are calls like any other. */
export type Expression =
  | { readonly op: 'identity' }
  | { readonly op: 'literal'; readonly value: Json }
  | { readonly op: 'variable'; readonly name: string }
  /** `optional` is the `?` behind a path: what cannot be read yields nothing, but what stands before it may fail. */
  | { readonly op: 'index'; readonly of: Expression; readonly key: Expression; readonly optional?: true }
  | {
      readonly op: 'slice'
      readonly of: Expression
      readonly from: Expression | null
      readonly to: Expression | null
      readonly optional?: true
    }
  | { readonly op: 'iterate'; readonly of: Expression; readonly optional?: true }
  | { readonly op: 'object'; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly op: 'array' | 'comma'; readonly items: readonly Expression[] }
  /** `format` is the name of what the values that are put in are written as. */
  | { readonly op: 'text'; readonly parts: readonly Expression[]; readonly format?: string }
  | { readonly op: 'format'; readonly name: string }
  | { readonly op: 'negate'; readonly of: Expression }
  | { readonly op: 'not' }
  | {
      readonly op: 'pipe' | 'and' | 'or' | 'alternative'
      readonly left: Expression
      readonly right: Expression
    }
  | {
      readonly op: 'binary'
      readonly operator: BinaryOperator
      readonly left: Expression
      readonly right: Expression
    }
  | {
      readonly op: 'assign'
      readonly operator: AssignOperator
      readonly left: Expression
      readonly right: Expression
    }
  | {
      readonly op: 'if'
      readonly branches: readonly (readonly [condition: Expression, then: Expression])[]
      readonly otherwise: Expression | null
    }
  | { readonly op: 'try'; readonly body: Expression; readonly handler: Expression | null }
  | {
      readonly op: 'as'
      readonly source: Expression
      readonly patterns: readonly Pattern[]
      readonly body: Expression
    }
  | {
      readonly op: 'reduce'
      readonly source: Expression
      readonly patterns: readonly Pattern[]
      readonly init: Expression
      readonly update: Expression
    }
  | {
      readonly op: 'foreach'
      readonly source: Expression
      readonly patterns: readonly Pattern[]
      readonly init: Expression
      readonly update: Expression
      readonly extract: Expression | null
    }
  | { readonly op: 'label'; readonly name: string; readonly body: Expression }
  | { readonly op: 'break'; readonly name: string }
  | {
      readonly op: 'define'
      readonly name: string
      /** A parameter with `$` is a value, one without is a filter. */
      readonly params: readonly string[]
      readonly body: Expression
      readonly rest: Expression
    }
  | { readonly op: 'call'; readonly name: string; readonly args: readonly Expression[] }

/** The expression of one kind. */
export type Of<Op extends Expression['op']> = Among<Op, Expression>

type Among<Op, E> = E extends { readonly op: infer Own } ? (Own & Op extends never ? never : E) : never

/** Why a text is no expression. `offset` counts UTF-16 units from the start of the text. */
export interface ExpressionFault {
  readonly offset: number
  readonly message: string
  readonly hint?: string
}

/** Everything that stands directly below an expression. */
export function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.op) {
    case 'identity':
    case 'literal':
    case 'variable':
    case 'not':
    case 'format':
    case 'break':
      return []
    case 'index':
      return [expression.of, expression.key]
    case 'slice':
      return present(expression.of, expression.from, expression.to)
    case 'object':
      return expression.entries.flat()
    case 'array':
    case 'comma':
      return expression.items
    case 'text':
      return expression.parts
    case 'negate':
    case 'iterate':
      return [expression.of]
    case 'pipe':
    case 'and':
    case 'or':
    case 'alternative':
    case 'binary':
    case 'assign':
      return [expression.left, expression.right]
    case 'if':
      return present(...expression.branches.flat(), expression.otherwise)
    case 'try':
      return present(expression.body, expression.handler)
    case 'label':
      return [expression.body]
    case 'define':
      return [expression.body, expression.rest]
    case 'call':
      return expression.args
    case 'as':
      return [expression.source, ...expression.patterns.flatMap(keysOf), expression.body]
    case 'reduce':
      return [expression.source, ...expression.patterns.flatMap(keysOf), expression.init, expression.update]
    case 'foreach': {
      const { source, patterns, init, update, extract } = expression
      return present(source, ...patterns.flatMap(keysOf), init, update, extract)
    }
  }
}

function present(...expressions: readonly (Expression | null)[]): Expression[] {
  return expressions.filter((expression) => expression !== null)
}

/** The expressions within a pattern: the keys of its fields. */
function keysOf(pattern: Pattern): Expression[] {
  if ('variable' in pattern) return []
  if ('array' in pattern) return pattern.array.flatMap(keysOf)
  return pattern.object.flatMap(({ key, value }) => (value === undefined ? [key] : [key, ...keysOf(value)]))
}

/** The names that a pattern binds, in the order in which they stand; one may stand twice. */
export function variablesOf(pattern: Pattern): string[] {
  if ('variable' in pattern) return [pattern.variable]
  if ('array' in pattern) return pattern.array.flatMap(variablesOf)
  return pattern.object.flatMap(({ variable, value }) => [
    ...(variable === undefined ? [] : [variable]),
    ...(value === undefined ? [] : variablesOf(value)),
  ])
}
