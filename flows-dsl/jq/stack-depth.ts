/** Analyses expressions before they run: how much stack they hold, and whether their outputs hold parts of the input. */

import { childrenOf, type Expression } from './expression.ts'

const HEIGHTS = new WeakMap<Expression, number>()

/** Levels of a condition, which stays open because more conditions may follow. */
const CHOICE = 4

/**
 * Levels of stack that an expression holds while its outputs are consumed. The receiver of an output runs on top of all
 * that produced it, so the heights of most parts add up; those of items and branches do not.
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

/** Height of an expression's parts together, from which each part subtracts its own. */
export function surroundingHeight(node: Expression): number {
  if (node.op === 'array' || node.op === 'comma' || node.op === 'define') return 0
  if (node.op === 'if') return node.branches.reduce((sum, [condition]) => sum + heightOf(condition), CHOICE)
  return heightOf(node) - 1
}
/** The outputs of these consist of the outputs of their parts. */
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

/** Tests if the outputs may hold parts of the input; true if it is uncertain. */
export function readsInput(node: Expression): boolean {
  if (node.op === 'literal' || node.op === 'variable') return false
  if (node.op === 'pipe') return readsInput(node.left)
  return !OF_PARTS.has(node.op) || childrenOf(node).some(readsInput)
}
