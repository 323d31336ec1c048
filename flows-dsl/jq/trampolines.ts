/** Runs tail calls without growing the stack, and bounds the depth of the calls that do grow it. */

import { abort } from '../budget.ts'
import type { Json } from '../json.ts'
import {
  BreakSignal,
  CONTINUE,
  type Emit,
  type EvalContext,
  recover,
  type Signal,
  STOP,
  TAIL,
  tick,
} from './filter.ts'
import { JqError } from './jq-error.ts'

/** Levels of expressions that may be open at once. They take less than half of the stack of a main thread. */
const OPEN_MAX = 2_000

/** Levels that a call takes besides those of the expressions in it. */
const CALL_LEVELS = 3

/** Enters a call. `leaveCall` undoes it unless an error unwinds the stack. */
export function enterCall(context: EvalContext, levels: number): void {
  context.depth += levels + CALL_LEVELS
  if (context.depth > OPEN_MAX)
    abort(`Functions call each other deeper than ${OPEN_MAX} levels of expressions.`)
}

export function leaveCall(context: EvalContext, levels: number): void {
  context.depth -= levels + CALL_LEVELS
}

/** Runs pending tail calls until there is none. */
export function runTailCalls(context: EvalContext, signal: Signal, emit: Emit): Signal {
  let current = signal
  while (current === TAIL) {
    const { tail } = context
    if (tail === undefined) return CONTINUE
    tick(context)
    current = tail.body.each(context, tail.env, tail.input, emit)
  }
  return current
}

/**
 * Runs `then` for each output of `from`, in tail position. Each output waits until the next one arrives, so that the
 * last one is handled after `from` has returned and its tail call needs no stack of its own.
 * @param levels of expressions around it; handling an output that is not the last takes twice that
 * @param then may return TAIL
 */
export function eachInTail(
  context: EvalContext,
  levels: number,
  from: (emit: Emit) => Signal,
  then: (value: Json) => Signal,
  emit: Emit,
): Signal {
  let waiting: Json | undefined
  /** The receiver stopped or failed, which discards the waiting output. */
  let isReceiverDone = false
  const handle = (value: Json): Signal => {
    isReceiverDone = true
    let signal = then(value)
    if (signal === TAIL) {
      enterCall(context, levels * 2)
      signal = runTailCalls(context, signal, emit)
      leaveCall(context, levels * 2)
    }
    isReceiverDone = signal === STOP
    return signal
  }
  const take = (): Json | undefined => {
    const value = waiting
    waiting = undefined
    return value
  }
  const { depth } = context
  try {
    const signal = from((value) => {
      const before = take()
      waiting = value
      return before === undefined ? CONTINUE : handle(before)
    })
    if (signal === STOP) return signal
  } catch (error) {
    // Outputs before an error or a `break` are handled before it.
    const last = take()
    if (isReceiverDone || last === undefined) throw error
    if (!(error instanceof JqError || error instanceof BreakSignal)) throw error
    recover(context, depth)
    if (handle(last) === STOP) return STOP
    throw error
  }
  const last = take()
  return last === undefined ? CONTINUE : then(last)
}
