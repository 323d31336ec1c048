/** Knows what is not wrong with a definition, and hardly meant. */

import { FaultList } from './fault-list.ts'
import type { Fault } from './faults.ts'
import { type Lost, lostIn } from './graph/reach.ts'
import type { FlowIR, TaskNode } from './ir.ts'
import { findAt, type Located } from './located.ts'

/** @param definition what the flow was compiled from */
export function warningsOf(ir: FlowIR, definition: Located): readonly Fault[] {
  const list = new FaultList()
  for (const lost of lostIn(ir)) tellLost(lost, definition, list)
  return list.faults
}

function tellLost({ pointer, name, before }: Lost, definition: Located, list: FaultList): void {
  const { line, column } = findAt(definition, pointer)?.at ?? definition
  const message = `No way leads to \`${name}\`: \`${before.name}\` before it ${whyNot(before)}.`
  list.fault('task_unreachable', { line, column, pointer }, message, 'Name it in a `then`, or leave it out.')
}

/** Why a task does not go on to the next one. */
function whyNot({ kind, next }: TaskNode): string {
  if (kind === 'raise') return 'always raises an error'
  if (kind === 'switch') return 'leads elsewhere whatever holds'
  return next === undefined || next === 'continue' ? 'never goes on' : `says \`then: ${next}\``
}
