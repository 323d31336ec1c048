/** Asks what a run will ask next, as long as its requests change nothing and each follows from the answer before it. */

import { ApplicationFailure } from '@temporalio/common'
import type { FlowIR, Json } from '../../flows-dsl/ir.ts'
import { type Asked, Course, type Whereabouts } from '../../flows-dsl/machine/course.ts'
import { LIMITS } from '../core/limits.ts'
import type { CallFailure, Foreseen, FunctionCall, Tried, Where } from './contract.ts'

const { ahead: BOUNDS, course } = LIMITS.briefCalls
const MEANS = { ...course, nowMs: Date.now, random: Math.random }

/** @returns null where the request was not answered in a moment */
type Try = (request: FunctionCall) => Promise<Tried | null>

/**
 * A run that makes one request after the other would be told of each answer, and ask for the next, by an activity each. What
 * is not foreseen here it asks by itself: whatever goes wrong on the way is nobody's failure.
 */
export async function goingAhead({ where, ...first }: FunctionCall, attempt: Try): Promise<Tried | null> {
  const tried = await attempt(first)
  if (tried === null || where === undefined) return tried
  const ahead: Foreseen[] = []
  await follow(where, tried.output, ahead, (asked) => outcomeOf(attempt({ ...first, ...asked }))).catch(
    () => undefined,
  )
  return ahead.length === 0 ? tried : { ...tried, ahead }
}

async function follow(
  { flow, stands }: Where,
  answer: Json,
  ahead: Foreseen[],
  attempt: (asked: Pick<Asked, 'function' | 'arguments'>) => Promise<Outcome | null>,
): Promise<void> {
  const untilMs = performance.now() + BOUNDS.lastMs
  const course = new Course(JSON.parse(flow) as FlowIR, JSON.parse(stands) as Whereabouts, MEANS)
  let chars = 0
  let next = course.next(answer)
  while (next !== undefined && ahead.length < BOUNDS.callsMax && performance.now() < untilMs) {
    const { step, ...asked } = next
    const outcome = await attempt(asked)
    if (outcome === null) return
    chars += JSON.stringify(outcome).length
    if (chars > BOUNDS.answersCharsMax) return
    ahead.push({ place: step.place, arguments: asked.arguments, ...outcome })
    next = 'output' in outcome ? course.next(outcome.output) : undefined
  }
}

type Outcome = Tried | { readonly failure: CallFailure; readonly took_ms: number }

/** An answer that is an error is one: it is not asked for again. @throws what has not come from the other side */
async function outcomeOf(attempted: Promise<Tried | null>): Promise<Outcome | null> {
  const beganMs = performance.now()
  try {
    return await attempted
  } catch (error) {
    const failure = error instanceof ApplicationFailure && error.nonRetryable && error.details?.[0]
    if (!failure) throw error
    return { failure: failure as CallFailure, took_ms: Math.round(performance.now() - beganMs) }
  }
}
