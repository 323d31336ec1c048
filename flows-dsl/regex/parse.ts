/** Parses regular expressions (Oniguruma, Perl syntax, as jq uses it) and rejects what takes more than linear time. */

import { fieldOf } from '../json.ts'
import { caseless, classOf, namedSet, negated, type PointSet, RegexError } from './code-point-sets.ts'
import type { Anchor, ParsedRegex, Regex } from './program.ts'
import { parseClass, Scanner } from './scanner.ts'

const NESTING_MAX = 50
const REPEAT_MAX = 100_000
const EMPTY: Regex = { kind: 'sequence', parts: [] }

/** Options that the expression itself can change. */
interface Modes {
  readonly caseless: boolean
  readonly extended: boolean
  /** `.` matches line breaks. */
  readonly dotAll: boolean
  /** `^` and `$` match at lines. */
  readonly lines: boolean
}

/** The letters of options within an expression, such as `(?i)`. */
const MODES: Readonly<Record<string, keyof Modes>> = { i: 'caseless', x: 'extended', s: 'dotAll', m: 'lines' }

const ANCHORS: Readonly<Record<string, Anchor>> = {
  A: 'start',
  z: 'end',
  Z: 'last-line',
  b: 'word',
  B: 'no-word',
  G: 'search',
}

/** @param flags of jq; those of the search itself are ignored here @throws RegexError */
export function parseRegex(text: string, flags: string): ParsedRegex {
  const modes = {
    caseless: flags.includes('i'),
    extended: flags.includes('x'),
    dotAll: flags.includes('p'),
    lines: false,
  }
  return new Parser(text, modes).whole()
}

class Parser {
  readonly #scanner: Scanner
  readonly #groups: (string | null)[] = []
  #modes: Modes
  #nesting = 0

  constructor(text: string, modes: Modes) {
    this.#scanner = new Scanner(text)
    this.#modes = modes
  }

  whole(): ParsedRegex {
    const regex = this.#choice()
    if (!this.#scanner.ended) throw new RegexError('unmatched close parenthesis')
    return { regex, groups: this.#groups }
  }

  #choice(): Regex {
    if (++this.#nesting > NESTING_MAX) throw new RegexError('too deep nest level')
    const modes = this.#modes
    const parts = [this.#sequence()]
    while (this.#scanner.take('|')) parts.push(this.#sequence())
    this.#modes = modes
    this.#nesting--
    return parts.length === 1 ? (parts[0] ?? EMPTY) : { kind: 'choice', parts }
  }

  #sequence(): Regex {
    const parts: Regex[] = []
    for (;;) {
      if (this.#modes.extended) this.#blank()
      const sign = this.#scanner.peek()
      if (sign === undefined || sign === '|' || sign === ')') return { kind: 'sequence', parts }
      const part = this.#atom()
      if (part !== undefined) parts.push(this.#repeated(part))
    }
  }

  /** Skips blanks and comments, for the flag `x`. */
  #blank(): void {
    for (;;) {
      const sign = this.#scanner.peek()
      if (sign === '#') while (!this.#scanner.ended && this.#scanner.next() !== '\n');
      else if (sign !== undefined && /^\s$/.test(sign)) this.#scanner.next()
      else return
    }
  }

  #repeated(part: Regex): Regex {
    let repeated = part
    for (let level = 0; ; level++) {
      if (level > NESTING_MAX) throw new RegexError('too deep nest level')
      if (this.#modes.extended) this.#blank()
      const bounds = this.#bounds()
      if (bounds === undefined) return repeated
      const lazy = this.#scanner.take('?')
      if (!lazy && bounds.sign && this.#scanner.peek() === '+') {
        throw new RegexError('possessive repeats are not a part of the language')
      }
      const { least, most } = bounds
      repeated = { kind: 'repeat', part: repeated, least, most, lazy }
    }
  }

  #bounds(): { readonly least: number; readonly most: number; readonly sign: boolean } | undefined {
    const scanner = this.#scanner
    if (scanner.take('*')) return { least: 0, most: Number.POSITIVE_INFINITY, sign: true }
    if (scanner.take('+')) return { least: 1, most: Number.POSITIVE_INFINITY, sign: true }
    if (scanner.take('?')) return { least: 0, most: 1, sign: true }
    const { position } = scanner
    if (!scanner.take('{')) return undefined
    const least = scanner.number()
    const comma = scanner.take(',')
    const most = comma ? scanner.number() : least
    if (!scanner.take('}') || least === undefined) {
      scanner.position = position
      return undefined
    }
    if (Math.max(least, most ?? 0) > REPEAT_MAX) throw new RegexError('too big number for repeat range')
    if (most !== undefined && most < least)
      throw new RegexError('upper is smaller than lower in repeat range')
    return { least, most: most ?? Number.POSITIVE_INFINITY, sign: false }
  }

  #atom(): Regex | undefined {
    const sign = this.#scanner.next()
    switch (sign) {
      case '(':
        return this.#group()
      case '[':
        return this.#point(parseClass(this.#scanner))
      case '.':
        return { kind: 'point', set: this.#modes.dotAll ? () => true : (point) => point !== 10 }
      case '^':
        return { kind: 'anchor', anchor: this.#modes.lines ? 'line-start' : 'start' }
      case '$':
        return { kind: 'anchor', anchor: this.#modes.lines ? 'line-end' : 'last-line' }
      case '\\':
        return this.#escape(this.#scanner.next())
      case '*':
      case '+':
      case '?':
        throw new RegexError('target of repeat operator is not specified')
      default:
        return this.#literal(sign.codePointAt(0))
    }
  }

  #literal(literal: number | undefined): Regex {
    return this.#point((point) => point === literal)
  }

  #point(set: PointSet): Regex {
    return { kind: 'point', set: this.#modes.caseless ? caseless(set) : set }
  }

  #escape(letter: string): Regex {
    const anchor = fieldOf(ANCHORS, letter)
    if (anchor !== undefined) return { kind: 'anchor', anchor }
    if (letter === 'Q') return this.#quoted()
    if (letter === 'R') return lineBreak()
    if (letter === 'N') return this.#point((point) => point !== 10)
    if (letter === 'O') return this.#point(() => true)
    if (/^[1-9kg]$/.test(letter))
      throw new RegexError('references back to a group are not a part of the language')
    if (/^[KXyY]$/.test(letter)) throw new RegexError(`\\${letter} is not a part of the language`)
    if ((letter === 'p' || letter === 'P') && this.#scanner.take('{')) {
      const set = namedSet(this.#scanner.until('}'))
      return this.#point(letter === 'p' ? set : negated(set))
    }
    const set = classOf(letter)
    return set === undefined ? this.#literal(this.#scanner.escaped(letter)) : this.#point(set)
  }

  /** `\Q … \E` */
  #quoted(): Regex {
    const parts: Regex[] = []
    while (!this.#scanner.ended && !this.#scanner.take('\\E')) {
      parts.push(this.#literal(this.#scanner.next().codePointAt(0)))
    }
    return { kind: 'sequence', parts }
  }

  /** After a `(`; undefined if the group only changes options. */
  #group(): Regex | undefined {
    const scanner = this.#scanner
    if (!scanner.take('?')) return this.#captured(null)
    if (scanner.take('#')) {
      scanner.until(')')
      return undefined
    }
    if (scanner.take(':')) return this.#closed(this.#choice())
    if (scanner.take('=')) return this.#look(false, false)
    if (scanner.take('!')) return this.#look(false, true)
    if (scanner.take('<=')) return this.#look(true, false)
    if (scanner.take('<!')) return this.#look(true, true)
    if (scanner.take('<') || scanner.take('P<')) return this.#captured(this.#name(scanner.until('>')))
    if (scanner.take("'")) return this.#captured(this.#name(scanner.until("'")))
    if (scanner.take('>')) throw new RegexError('atomic groups are not a part of the language')
    return this.#switched()
  }

  #name(name: string): string {
    if (!/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name)) throw new RegexError('group name is empty or invalid')
    return name
  }

  #captured(name: string | null): Regex {
    const index = this.#groups.push(name)
    return { kind: 'group', index, part: this.#closed(this.#choice()) }
  }

  #look(behind: boolean, negative: boolean): Regex {
    return { kind: 'look', part: this.#closed(this.#choice()), behind, negative }
  }

  #closed(part: Regex): Regex {
    if (!this.#scanner.take(')')) throw new RegexError('end pattern with unmatched parenthesis')
    return part
  }

  /** `(?i)` for the rest of the group, `(?i:…)` for its content, `(?-i)` to reset. */
  #switched(): Regex | undefined {
    const before = this.#modes
    let isOn = true
    for (;;) {
      const sign = this.#scanner.next()
      const mode = fieldOf(MODES, sign)
      if (sign === ')') return undefined
      if (sign === ':') {
        const part = this.#closed(this.#choice())
        this.#modes = before
        return part
      }
      if (sign === '-') isOn = false
      else if (mode !== undefined) this.#modes = { ...this.#modes, [mode]: isOn }
      else throw new RegexError('undefined group option')
    }
  }
}

function lineBreak(): Regex {
  const point = (wanted: (point: number) => boolean): Regex => ({ kind: 'point', set: wanted })
  const pair: Regex = { kind: 'sequence', parts: [point((at) => at === 13), point((at) => at === 10)] }
  return {
    kind: 'choice',
    parts: [pair, point((at) => (at >= 10 && at <= 13) || at === 0x85 || at === 0x2028 || at === 0x2029)],
  }
}
