/** Lets answers of local activities come one after the other: in a replay, several come at once that came one by one. */

import type { WorkflowInterceptorsFactory } from '@temporalio/workflow'
import type { Tried } from '../activities/contract.ts'
import { type FlowRunInput, protocolOf } from '../core/run.ts'
import { settled } from './settled.ts'

/**
 * The server's history says in which order local activities ended, not which of them were told to the run together. Replayed,
 * all come together that can; what an interpreter does with two answers at once (which branch is first, what is one
 * record) has to be what it did with one after the other.
 */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let isOrdered = false
  const inTurn = oneByOne()
  return {
    inbound: [
      {
        execute: (input, next) => {
          // Runs that began before there was this go on as they were.
          isOrdered = protocolOf(input.args[0] as Partial<FlowRunInput> | undefined) >= 3
          return next(input)
        },
      },
    ],
    outbound: [
      {
        scheduleLocalActivity: (input, next) => (isOrdered ? inTurn(next(input)) : next(input)),
      },
    ],
  }
}

/** @returns gives what a promise gives, once all is done that what came before it has brought about */
function oneByOne(): <T>(work: Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve()
  const turn = (answers: number) => {
    const mine = last
    last = mine.then(() => settled(answers))
    return mine
  }
  return (work) =>
    work.then(
      (answer) => turn(1 + foreseenIn(answer)).then(() => answer),
      (error) =>
        turn(1).then(() => {
          throw error
        }),
    )
}

/** Answers that came with this one, each of which the run goes through as if it had come by itself. */
function foreseenIn(answer: unknown): number {
  return (answer as Partial<Tried> | null | undefined)?.ahead?.length ?? 0
}
