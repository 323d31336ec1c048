/** Knows how is shown which tasks and ways of a flow were never taken, each where it stands. */

import { nodeAt, type SourceNode } from '../../../flows-dsl/located.ts'
import type { Coverage } from '../../../flows-dsl/simulator/simulation.ts'
import { type Output, paint } from './faults.ts'

export function printCoverage(
  file: string,
  coverage: Coverage,
  definition: SourceNode,
  output: Output,
): void {
  const { tasks, ways } = coverage
  output.write(`  coverage: ${tasks.entered} of ${tasks.total} tasks, ${ways.taken} of ${ways.total} ways\n`)
  for (const missed of [...tasks.missed, ...ways.missed]) {
    const { at, pointer, way } = placed(missed, definition)
    const where = at === undefined ? file : `${file}:${at.line}:${at.column}`
    const told = [pointer.split('/').at(-1), way].filter(Boolean).join(': ')
    output.write(`    ${paint('yellow', 'missed', output)} ${where} ${told}\n`)
  }
}

/** A pointer, or `pointer: way`; names may have a colon too, so the definition says where the pointer ends. */
function placed(missed: string, definition: SourceNode) {
  const ends = [...missed.matchAll(/: |$/g)].map(({ index }) => index).reverse()
  for (const end of ends) {
    const pointer = missed.slice(0, end)
    const at = nodeAt(definition, pointer)?.at
    if (at !== undefined) return { at, pointer, way: missed.slice(end + 2) }
  }
  return { at: undefined, pointer: missed, way: '' }
}
