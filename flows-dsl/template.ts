/** Knows how a value with expressions in it becomes a value. */

import type { Expression } from './expression/expression.ts'
import type { Json, Template } from './ir.ts'
import { objectOf } from './json.ts'

/**
 * Fills a template in. What an expression yields is put in as it is: text in data that looks like one stays
 * text.
 */
export function fill(template: Template, evaluate: (expression: Expression) => Json): Json {
  if ('literal' in template) return template.literal
  if ('expression' in template) return evaluate(template.expression)
  if ('array' in template) return template.array.map((item) => fill(item, evaluate))
  return objectOf(template.object.map(([key, value]) => [key, fill(value, evaluate)]))
}
