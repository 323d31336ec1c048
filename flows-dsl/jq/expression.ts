/** Defines the syntax tree of expressions, which is plain JSON and a part of the compiled flow. */

import type { Json } from '../json.ts'

export type BinaryOperator = '+' | '-' | '*' | '/' | '%' | '==' | '!=' | '<' | '<=' | '>' | '>='

/** `=` sets a value, `|=` updates it by a filter, the others calculate with the current value. */
export type AssignOperator = '=' | '|=' | '+=' | '-=' | '*=' | '/=' | '%=' | '//='

/** The pattern after `as`: a variable for the value, or variables for its parts. */
export type Pattern =
  | { readonly variable: string }
  | { readonly array: readonly Pattern[] }
  | { readonly object: readonly FieldPattern[] }

/** `variable` binds the field itself, `value` its parts; at least one is present. */
export interface FieldPattern {
  readonly key: Expression
  readonly variable?: string
  readonly value?: Pattern
}

/** A node of the tree. Builtins are calls like any other, except `not`. */
export type Expression =
  | { readonly op: 'identity' }
  | { readonly op: 'literal'; readonly value: Json }
  | { readonly op: 'variable'; readonly name: string }
  /** `optional` is the `?` after a path: an unreadable value yields nothing, but `of` may still fail. */
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
  /** Literals and interpolated values in turn; `format` is the name of the format of the values. */
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

/** The node of one operation. */
export type Node<Op extends Expression['op']> = NodeAmong<Op, Expression>

type NodeAmong<Op, E> = E extends { readonly op: infer Own } ? (Own & Op extends never ? never : E) : never

/** The first error in the text of an expression. `offset` counts UTF-16 units from the start of the text. */
export interface ExpressionDiagnostic {
  readonly offset: number
  readonly message: string
  readonly hint?: string
}

/** The direct subexpressions of an expression, those in the keys of its patterns included. */
export function childrenOf(expression: Expression): readonly Expression[] {
  return expression.op === 'literal' ? [] : Object.values(expression).flatMap(expressionsIn)
}

/** The expressions in a field of an expression: itself, or those in its list or pattern. */
function expressionsIn(field: unknown): Expression[] {
  if (typeof field !== 'object' || field === null) return []
  return 'op' in field ? [field as Expression] : Object.values(field).flatMap(expressionsIn)
}

/** The variables that a pattern binds, in order; a variable can occur twice. */
export function variablesOf(pattern: Pattern): string[] {
  if ('variable' in pattern) return [pattern.variable]
  if ('array' in pattern) return pattern.array.flatMap(variablesOf)
  return pattern.object.flatMap(({ variable, value }) => [
    ...(variable === undefined ? [] : [variable]),
    ...(value === undefined ? [] : variablesOf(value)),
  ])
}
