/**
 * Knows what a run asks next, as far as that follows from the answer to one call: the machine itself, going on from a copy of the
 * run's state. Nothing that it does is of consequence for the run.
 */

import type { FlowIR, Json, JsonObject } from '../ir.ts'
import type { StepRef } from '../tasks/task.ts'
import { Machine } from './machine.ts'
import { pack, type Snapshot, unpack } from './snapshot.ts'
import type { Effect, RunState } from './state.ts'
import type { Command, Surroundings } from './surroundings.ts'

/** Where a run stands that waits for one call, and for nothing else. */
export interface Whereabouts {
  /** The id of its effect. */
  readonly call: number
  readonly snapshot: Snapshot
}

/** What is asked to find out, and what that may cost. */
export interface Means extends Omit<Surroundings, 'record'> {
  /** Of tasks, in all: how often one begins, ends or is left out. */
  readonly events: number
}

/** @returns undefined where the run waits for something else, too: which comes first is not known */
export function whereabouts(state: RunState, call: number): Whereabouts | undefined {
  const others = Object.values(state.frames).filter(
    (frame) => frame.is === 'effect' && frame.id !== call && !isLimit(frame.effect),
  )
  return others.length === 0 ? { call, snapshot: pack(state) } : undefined
}

export class Course {
  readonly #machine: Machine
  /** The effect that is waited for. */
  #call = 0

  private constructor(ir: FlowIR, state: RunState, { events, ...around }: Means) {
    let left = events
    this.#machine = new Machine(ir, state, {
      ...around,
      record: () => {
        left -= 1
        if (left < 0) throw new Error('The course of the run is too long.')
      },
    })
  }

  /** Of a run that waits for one call. */
  static from(ir: FlowIR, { call, snapshot }: Whereabouts, means: Means): Course {
    const course = new Course(ir, unpack(snapshot), means)
    course.#call = call
    return course
  }

  /**
   * @param output of the call that is waited for
   * @returns what is asked then, if that is one call that may be made beside the run for a moment, and nothing else
   * @throws Error where it takes more than there are means
   */
  next(output: Json): Asked | undefined {
    return this.#asked(this.#machine.happened({ id: this.#call, output }))
  }

  #asked(commands: readonly Command[]): Asked | undefined {
    const [asked, ...others] = commands.filter(isOfTheFlow)
    if (asked === undefined || others.length > 0) return undefined
    const { begin, step, id } = asked
    // Where expressions cost too much here, and not in the run, there is none: what would follow that fault needs some, too.
    if (begin.do !== 'call' || begin.local !== 'brief') return undefined
    this.#call = id
    return { step, function: begin.function, arguments: begin.arguments }
  }
}

/** A call, and the step that makes it. */
export interface Asked {
  readonly step: StepRef
  readonly function: string
  readonly arguments: JsonObject
}

type Begin = Extract<Command, { readonly begin: Effect }>

function isOfTheFlow(command: Command): command is Begin {
  return 'begin' in command && !isLimit(command.begin)
}

/** A timer that ends other work: it does nothing by itself. */
function isLimit(effect: Effect): boolean {
  return effect.do === 'sleep' && effect.limits
}
