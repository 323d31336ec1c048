/** Knows what an expression is once parsed: a tree of plain JSON that the compiled flow carries. */

import type { Json } from '../json.ts'

export type BinaryOperator = '+' | '-' | '==' | '!=' | '<' | '<=' | '>' | '>='

/**
 * The part of jq that is there. Each form yields exactly one value; the streams of jq (`,`, `.[]`, `empty`)
 * will come as further forms, so a compiled flow of today stays valid.
 */
export type Expression =
  | { readonly op: 'identity' }
  | { readonly op: 'literal'; readonly value: Json }
  | { readonly op: 'variable'; readonly name: string }
  | { readonly op: 'index'; readonly of: Expression; readonly key: Expression }
  | { readonly op: 'object'; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly op: 'array'; readonly items: readonly Expression[] }
  | { readonly op: 'text'; readonly parts: readonly Expression[] }
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
      return []
    case 'index':
      return [expression.of, expression.key]
    case 'object':
      return expression.entries.flat()
    case 'array':
      return expression.items
    case 'text':
      return expression.parts
    case 'negate':
      return [expression.of]
    case 'pipe':
    case 'and':
    case 'or':
    case 'alternative':
    case 'binary':
      return [expression.left, expression.right]
  }
}
