/** Says which expressions may keep a part of their input, after which it must not be changed in place any more. */

import type { Json } from '../json.ts'
import { childrenOf, type Expression } from './expression.ts'
import type { Owned } from './values.ts'

/** A container that others see may be kept by them: from then on all are copied again. @returns the value */
export function seen(value: Json, owned: Owned): Json {
  if (typeof value === 'object' && value !== null) owned.clear()
  return value
}

/** What these yield is made of what their parts yield. */
const OF_PARTS: ReadonlySet<Expression['op']> = new Set([
  'index',
  'object',
  'array',
  'comma',
  'text',
  'negate',
  'and',
  'or',
  'alternative',
  'binary',
])

/** Whether the outputs may be made of the input; true where it is not certain. */
export function readsInput(node: Expression): boolean {
  if (node.op === 'literal' || node.op === 'variable') return false
  if (node.op === 'pipe') return readsInput(node.left)
  return !OF_PARTS.has(node.op) || childrenOf(node).some(readsInput)
}
