/** Knows how variables are written, and which there are at a place. */

import { didYouMean } from '../faults.ts'
import type { Expression } from './expression.ts'
import type { Reader } from './reader.ts'

/** The name behind a `$` that is already read. `$ENV` is empty: a flow has no environment. */
export function parseVariable({ cursor, names }: Reader): Expression {
  const start = cursor.offset
  const name = cursor.word()
  if (name === undefined) throw cursor.stop('A name must follow `$`.')
  if (names.variables.includes(name)) return { op: 'variable', name }
  if (name === 'ENV') return { op: 'literal', value: {} }
  if (name === '__loc__') {
    const line = cursor.text.slice(0, start).split('\n').length
    return { op: 'literal', value: { file: '<top-level>', line } }
  }
  const there = `There are: ${names.variables.map((variable) => `$${variable}`).join(', ')}.`
  throw cursor.stop(
    `There is no variable $${name} here.`,
    start - 1,
    didYouMean(name, names.variables, '$') ?? there,
  )
}
