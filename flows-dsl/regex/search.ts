/** Searches a text in linear time by following all alternatives at once (Pike VM). */

import { type Budget, spend } from '../budget.ts'
import { isWord } from './code-point-sets.ts'
import type { Anchor, Instruction, Program } from './program.ts'

/** Steps of a thread at each instruction, which allocates a new thread. */
const THREAD_STEPS = 2

/** Positions at which groups begin and end, the latest first. */
type Saved = { readonly slot: number; readonly at: number; readonly before: Saved } | undefined

interface Thread {
  readonly begin: number
  readonly at: number
  readonly saved: Saved
}

export interface SearchOptions {
  readonly points: readonly number[]
  readonly budget: Budget
  /** Find the longest match at a position instead of the first. */
  readonly longest: boolean
  readonly notEmpty: boolean
}

/**
 * Finds the first match at or after a position.
 * @returns begin and end of the match and of each group, -1 for a group without a match; undefined for no match
 * @throws FlowError (expression) if the budget is exhausted
 */
export function search(
  program: Program,
  groups: number,
  from: number,
  options: SearchOptions,
): number[] | undefined {
  const machine = new Machine(program, options)
  const found = machine.from(from, options.points.length, false)
  if (found === undefined) return undefined
  const slots = new Array<number>(groups * 2 + 2).fill(-1)
  slots[1] = found.end
  for (let saved = found.saved; saved !== undefined; saved = saved.before) {
    if (saved.slot >= 0 && slots[saved.slot] === -1) slots[saved.slot] = saved.at
  }
  for (let group = 1; group <= groups; group++) if (slots[group * 2 + 1] === -1) slots[group * 2] = -1
  return slots
}

interface Match {
  readonly begin: number
  readonly end: number
  readonly saved: Saved
}

class Machine {
  readonly #program: Program
  readonly #options: SearchOptions
  /** The round in which each instruction was last reached. Only the first thread to reach one continues. */
  readonly #reached: number[]
  #round = 0
  #origin = 0
  #found: Match | undefined

  constructor(program: Program, how: SearchOptions) {
    this.#program = program
    this.#options = how
    this.#reached = new Array<number>(program.length).fill(-1)
  }

  /** @param anchored whether the match must begin at `start` @param exact whether it must end at `end` */
  from(start: number, end: number, anchored: boolean, exact = false): Match | undefined {
    this.#origin = start
    this.#found = undefined
    let threads: Thread[] = []
    for (let at = start; at <= end; at++) {
      this.#round++
      const ready: Thread[] = []
      for (const thread of threads) if (this.#follow(thread, at, ready, exact ? end : -1)) break
      const begins = this.#found === undefined && (at === start || !anchored)
      if (begins)
        this.#follow(
          { begin: at, at: 0, saved: { slot: 0, at, before: undefined } },
          at,
          ready,
          exact ? end : -1,
        )
      if (ready.length === 0 && (this.#found !== undefined || anchored)) break
      threads = at < end ? this.#step(ready, at) : []
    }
    return this.#found
  }

  /** The threads that accept the code point here. */
  #step(ready: readonly Thread[], at: number): Thread[] {
    const point = this.#options.points[at] ?? 0
    spend(this.#options.budget, 1 + THREAD_STEPS * ready.length)
    const next: Thread[] = []
    for (const thread of ready) {
      const instruction = this.#program[thread.at]
      if (instruction?.op === 'point' && instruction.set(point)) next.push({ ...thread, at: thread.at + 1 })
    }
    return next
  }

  /** Follows a thread to all instructions that consume a code point. @returns whether it matched, which discards later threads */
  #follow(first: Thread, at: number, ready: Thread[], exactEnd: number): boolean {
    const open: Thread[] = [first]
    for (let thread = open.pop(); thread !== undefined; thread = open.pop()) {
      if (this.#reached[thread.at] === this.#round) continue
      this.#reached[thread.at] = this.#round
      spend(this.#options.budget, THREAD_STEPS)
      const instruction = this.#program[thread.at]
      if (instruction === undefined) continue
      if (instruction.op === 'point') ready.push(thread)
      else if (instruction.op === 'match') {
        if (this.#matches(thread, at, exactEnd)) return true
      } else this.#branch(instruction, thread, at, open)
    }
    return false
  }

  #branch(instruction: Instruction, thread: Thread, at: number, open: Thread[]): void {
    const next = thread.at + 1
    switch (instruction.op) {
      case 'point':
      case 'match':
        return
      case 'jump':
        open.push({ ...thread, at: instruction.to })
        return
      case 'split':
        open.push({ ...thread, at: instruction.to[1] }, { ...thread, at: instruction.to[0] })
        return
      case 'again': {
        const isEmpty = savedPosition(thread.saved, instruction.slot, this.#options.budget) === at
        open.push({ ...thread, at: isEmpty ? next : instruction.to })
        return
      }
      case 'save':
        open.push({ ...thread, at: next, saved: { slot: instruction.slot, at, before: thread.saved } })
        return
      case 'anchor':
        if (this.#isAt(instruction.anchor, at)) open.push({ ...thread, at: next })
        return
      case 'look':
        if (this.#lookMatches(instruction, at) !== instruction.negative) open.push({ ...thread, at: next })
    }
  }

  /** @returns whether the match discards later threads */
  #matches({ begin, saved }: Thread, at: number, exactEnd: number): boolean {
    if (exactEnd >= 0 && at !== exactEnd) return false
    if (this.#options.notEmpty && at === begin) return false
    const { longest } = this.#options
    if (!longest || this.#found === undefined || this.#found.begin >= begin)
      this.#found = { begin, end: at, saved }
    return !longest
  }

  #lookMatches({ program, behind }: Extract<Instruction, { op: 'look' }>, at: number): boolean {
    spend(this.#options.budget, 1 + (program.length >> 2))
    const machine = new Machine(program, { ...this.#options, longest: false, notEmpty: false })
    if (!behind) return machine.from(at, this.#options.points.length, true) !== undefined
    for (let start = at; start >= 0; start--) {
      spend(this.#options.budget, 1 + program.length)
      if (machine.from(start, at, true, true) !== undefined) return true
    }
    return false
  }

  #isAt(anchor: Anchor, at: number): boolean {
    const { points } = this.#options
    const atEnd = at === points.length
    switch (anchor) {
      case 'start':
        return at === 0
      case 'end':
        return atEnd
      case 'last-line':
        return atEnd || (at === points.length - 1 && points[at] === 10)
      case 'line-start':
        return at === 0 || points[at - 1] === 10
      case 'line-end':
        return atEnd || points[at] === 10
      case 'search':
        return at === this.#origin
      case 'word':
      case 'no-word': {
        const before = at > 0 && isWord(points[at - 1] ?? 0)
        const after = !atEnd && isWord(points[at] ?? 0)
        return (before !== after) === (anchor === 'word')
      }
    }
  }
}

/** Entries of inner loops precede the one of the slot. */
function savedPosition(saved: Saved, slot: number, budget: Budget): number | undefined {
  let here = saved
  for (; here !== undefined && here.slot !== slot; here = here.before) spend(budget, 1)
  return here?.at
}
