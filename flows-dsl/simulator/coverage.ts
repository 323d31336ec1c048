/** Computes which tasks and branches of a flow a trace has covered. */

import type { FlowIR, TaskNode } from '../ir.ts'
import { Nodes, typeOf } from '../machine/task-index.ts'
import type { Coverage, TraceEntry } from './types.ts'

/** @param traces of one simulation, or of all cases of a flow */
export function coverageOf(ir: FlowIR, ...traces: readonly (readonly TraceEntry[])[]): Coverage {
  const entered = new Set<string>()
  const taken = new Set<string>()
  for (const { pointer, phase, took } of traces.flat()) {
    if (phase === 'skipped') taken.add(`${pointer}: skipped`)
    else entered.add(pointer)
    if (phase === 'started') taken.add(`${pointer}: entered`)
    if (took !== undefined) taken.add(`${pointer}: ${took}`)
  }
  const nodes = new Nodes(ir).all()
  return {
    tasks: countOf(
      nodes.map(({ pointer }) => pointer),
      entered,
      'entered',
    ),
    ways: countOf(nodes.flatMap(waysOf), taken, 'taken'),
  }
}

function waysOf(node: TaskNode): string[] {
  const conditional = node.if === undefined ? [] : ['entered', 'skipped']
  const ways = typeOf(node).ways?.(node.body) ?? []
  return [...conditional, ...ways].map((way) => `${node.pointer}: ${way}`)
}

function countOf<Key extends string>(all: readonly string[], seen: ReadonlySet<string>, key: Key) {
  const missed = all.filter((one) => !seen.has(one))
  return { [key]: all.length - missed.length, total: all.length, missed } as {
    readonly [K in Key]: number
  } & { readonly total: number; readonly missed: readonly string[] }
}
