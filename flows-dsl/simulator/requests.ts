/** Knows what a step of a simulation asks of the outside, and what to give it where it was given nothing. */

import type { JsonObject } from '../ir.ts'
import type { Effect } from '../machine/state.ts'
import type { StepRef } from '../tasks/task.ts'
import type { Wanted } from './types.ts'

export function asked(effect: Exclude<Effect, { do: 'sleep' }>): JsonObject {
  if (effect.do === 'call') return { function: effect.function, arguments: effect.arguments }
  return { await: effect.what, details: effect.details }
}

export function wantedBy(
  effect: Exclude<Effect, { do: 'sleep' }>,
  { pointer, iteration, name }: StepRef,
): Wanted {
  const step = `${pointer}#${iteration}`
  if (effect.do === 'call') {
    const hint = `Give an answer: mocks: { ${name}: { output: … } }, or for all calls of \`${effect.function}\`.`
    return { step, what: `the answer of ${effect.function}`, hint }
  }
  if (effect.what === 'events')
    return { step, what: 'events', hint: 'Plan them: events: [{ after: PT1S, event: { … } }].' }
  if (effect.what === 'approval') {
    const hint = `Plan one: decisions: [{ task: ${name}, decision: { by: …, approved: true } }].`
    return { step, what: 'a decision', hint }
  }
  return {
    step,
    what: `the end of a ${effect.what}`,
    hint: `Give an answer: mocks: { ${name}: { output: … } }.`,
  }
}
