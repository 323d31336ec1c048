/** Knows how a regular expression becomes a list of instructions that threads go through. */

import { type Anchor, type PointSet, type Regex, RegexFault } from './regex.ts'

/** `to` are places in the list; the first of two is tried first. */
export type Instruction =
  | { readonly op: 'point'; readonly set: PointSet }
  | { readonly op: 'split'; readonly to: readonly [number, number] }
  | { readonly op: 'jump'; readonly to: number }
  | { readonly op: 'save'; readonly slot: number }
  | { readonly op: 'anchor'; readonly anchor: Anchor }
  | { readonly op: 'look'; readonly program: Program; readonly behind: boolean; readonly negative: boolean }
  /** Goes back to the start of a loop, or out of it where it took nothing since it was there. */
  | { readonly op: 'again'; readonly to: number; readonly slot: number }
  | { readonly op: 'match' }

export type Program = readonly Instruction[]

/** Time is at most the product of this and the length of the text. */
const INSTRUCTIONS_MAX = 2_000

/** @throws RegexFault where repeats make it too long */
export function programOf(regex: Regex): Program {
  const writer = new Writer()
  writer.write(regex)
  writer.put({ op: 'match' })
  return writer.instructions
}

/** What looks around may stand in repeats: each is written once. */
const LOOKS = new WeakMap<Regex, Program>()

function lookOf(part: Regex): Program {
  const program = LOOKS.get(part) ?? programOf(part)
  LOOKS.set(part, program)
  return program
}

class Writer {
  readonly instructions: Instruction[] = []

  put(instruction: Instruction): number {
    if (this.instructions.length >= INSTRUCTIONS_MAX)
      throw new RegexFault('the regular expression is too large')
    return this.instructions.push(instruction) - 1
  }

  write(regex: Regex): void {
    switch (regex.kind) {
      case 'point':
        this.put({ op: 'point', set: regex.set })
        return
      case 'anchor':
        this.put({ op: 'anchor', anchor: regex.anchor })
        return
      case 'sequence':
        for (const part of regex.parts) this.write(part)
        return
      case 'choice':
        this.#choice(regex.parts)
        return
      case 'group':
        this.put({ op: 'save', slot: regex.index * 2 })
        this.write(regex.part)
        this.put({ op: 'save', slot: regex.index * 2 + 1 })
        return
      case 'look':
        this.put({
          op: 'look',
          program: lookOf(regex.part),
          behind: regex.behind,
          negative: regex.negative,
        })
        return
      case 'repeat':
        this.#repeat(regex)
    }
  }

  #choice(parts: readonly Regex[]): void {
    const jumps: number[] = []
    for (const part of parts.slice(0, -1)) {
      const split = this.put({ op: 'jump', to: 0 })
      this.write(part)
      jumps.push(this.put({ op: 'jump', to: 0 }))
      this.instructions[split] = split2(split + 1, this.instructions.length, false)
    }
    const last = parts.at(-1)
    if (last !== undefined) this.write(last)
    for (const jump of jumps) this.instructions[jump] = { op: 'jump', to: this.instructions.length }
  }

  #repeat({ part, least, most, lazy }: Extract<Regex, { kind: 'repeat' }>): void {
    for (let i = 0; i < least; i++) this.#once(part)
    if (most === Number.POSITIVE_INFINITY) {
      this.#loop(part, lazy)
      return
    }
    const splits: number[] = []
    for (let i = least; i < most; i++) {
      splits.push(this.put({ op: 'jump', to: 0 }))
      this.write(part)
    }
    for (const split of splits) this.instructions[split] = split2(split + 1, this.instructions.length, lazy)
  }

  /** What repeats often must not be free where it is empty. */
  #once(part: Regex): void {
    const before = this.instructions.length
    this.write(part)
    if (before === this.instructions.length) this.put({ op: 'jump', to: before + 1 })
  }

  #loop(part: Regex, lazy: boolean): void {
    const split = this.put({ op: 'jump', to: 0 })
    if (canBeEmpty(part)) this.#guarded(part, split)
    else {
      this.write(part)
      this.put({ op: 'jump', to: split })
    }
    this.instructions[split] = split2(split + 1, this.instructions.length, lazy)
  }

  /** A loop that took nothing is left, since it could go on like this for ever. */
  #guarded(part: Regex, split: number): void {
    const slot = -1 - split
    this.put({ op: 'save', slot })
    this.write(part)
    this.put({ op: 'again', to: split, slot })
  }
}

function canBeEmpty(regex: Regex): boolean {
  switch (regex.kind) {
    case 'point':
      return false
    case 'anchor':
    case 'look':
      return true
    case 'sequence':
      return regex.parts.every(canBeEmpty)
    case 'choice':
      return regex.parts.some(canBeEmpty)
    case 'group':
      return canBeEmpty(regex.part)
    case 'repeat':
      return regex.least === 0 || canBeEmpty(regex.part)
  }
}

function split2(inside: number, after: number, lazy: boolean): Instruction {
  return { op: 'split', to: lazy ? [after, inside] : [inside, after] }
}
