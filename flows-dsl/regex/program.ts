/** Defines the syntax tree of regular expressions and compiles it to instructions for a Pike VM. */

import { type PointSet, RegexError } from './code-point-sets.ts'

/** Positions: bounds of the text, of its lines and words, and the start of the search. */
export type Anchor = 'start' | 'end' | 'last-line' | 'line-start' | 'line-end' | 'word' | 'no-word' | 'search'

export type Regex =
  | { readonly kind: 'point'; readonly set: PointSet }
  | { readonly kind: 'anchor'; readonly anchor: Anchor }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly Regex[] }
  | {
      readonly kind: 'repeat'
      readonly part: Regex
      readonly least: number
      readonly most: number
      readonly lazy: boolean
    }
  | { readonly kind: 'group'; readonly index: number; readonly part: Regex }
  | { readonly kind: 'look'; readonly part: Regex; readonly behind: boolean; readonly negative: boolean }

/** A regular expression with the names of its groups, null for an unnamed one. */
export interface ParsedRegex {
  readonly regex: Regex
  readonly groups: readonly (string | null)[]
}

/** `to` are indices of instructions; the first of two has priority. */
export type Instruction =
  | { readonly op: 'point'; readonly set: PointSet }
  | { readonly op: 'split'; readonly to: readonly [number, number] }
  | { readonly op: 'jump'; readonly to: number }
  | { readonly op: 'save'; readonly slot: number }
  | { readonly op: 'anchor'; readonly anchor: Anchor }
  | { readonly op: 'look'; readonly program: Program; readonly behind: boolean; readonly negative: boolean }
  /** Repeats a loop, or leaves it if the last round consumed nothing. */
  | { readonly op: 'again'; readonly to: number; readonly slot: number }
  | { readonly op: 'match' }

export type Program = readonly Instruction[]

/** A search takes at most this times the length of the text. */
const INSTRUCTIONS_MAX = 2_000

/** @throws RegexError if repeats make it too long */
export function programOf(regex: Regex): Program {
  const writer = new Writer()
  writer.write(regex)
  writer.put({ op: 'match' })
  return writer.instructions
}

/** Programs of lookarounds, which a repeat can contain several times. */
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
      throw new RegexError('the regular expression is too large')
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

  /** An empty part takes an instruction too, so that many repeats of it hit the limit. */
  #once(part: Regex): void {
    const before = this.instructions.length
    this.write(part)
    if (before === this.instructions.length) this.put({ op: 'jump', to: before + 1 })
  }

  #loop(part: Regex, lazy: boolean): void {
    const split = this.put({ op: 'jump', to: 0 })
    const canLoopForever = canBeEmpty(part)
    const slot = -1 - split
    if (canLoopForever) this.put({ op: 'save', slot })
    this.write(part)
    // `again` ends the loop after a round that consumed nothing.
    this.put(canLoopForever ? { op: 'again', to: split, slot } : { op: 'jump', to: split })
    this.instructions[split] = split2(split + 1, this.instructions.length, lazy)
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
