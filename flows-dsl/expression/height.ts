/** Knows how much of the stack an expression can hold while its outputs are used, in levels of expressions. */

import { childrenOf, type Expression } from './expression.ts'

const HEIGHTS = new WeakMap<Expression, number>()

/** A choice keeps what it has, since other conditions may come. */
const CHOICE = 4

/**
 * What receives an output stands on top of all that made it: the parts of most expressions stand on each other. Items
 * and branches do not.
 */
export function heightOf(node: Expression): number {
  const known = HEIGHTS.get(node)
  if (known !== undefined) return known
  const below = node.op === 'define' ? [node.rest] : childrenOf(node)
  const heights = below.map(heightOf)
  const apart = node.op === 'array' || node.op === 'comma' || node.op === 'if'
  const parts = apart ? Math.max(0, ...heights) : heights.reduce((sum, height) => sum + height, 0)
  const height = parts + (node.op === 'if' ? CHOICE : 1)
  HEIGHTS.set(node, height)
  return height
}

/** How high the parts of an expression stand upon each other, as seen from one of them, which is taken off again. */
export function heightAround(node: Expression): number {
  if (node.op === 'array' || node.op === 'comma' || node.op === 'define') return 0
  if (node.op === 'if') return node.branches.reduce((sum, [condition]) => sum + heightOf(condition), CHOICE)
  return heightOf(node) - 1
}
