/** Knows how a set of characters is written in brackets: ranges, negation, names. */

import { type PointSet, RegexFault } from './regex.ts'
import type { Scanner } from './scanner.ts'
import { classOf, namedSet, negated } from './sets.ts'

/** The inside of `[ ]`; the `[` is already read. A `]` that comes first stands for itself. */
export function parseClass(scanner: Scanner): PointSet {
  const isNegated = scanner.take('^')
  const sets: PointSet[] = []
  for (let first = true; first || !scanner.take(']'); first = false) {
    if (scanner.ended) throw new RegexFault('premature end of char-class')
    sets.push(parseItem(scanner))
  }
  return isNegated ? negated(union(sets)) : union(sets)
}

function union(sets: readonly PointSet[]): PointSet {
  const [only] = sets
  if (sets.length === 1 && only !== undefined) return only
  return (point) => {
    for (const set of sets) if (set(point)) return true
    return false
  }
}

function parseItem(scanner: Scanner): PointSet {
  if (scanner.take('[:')) {
    const set = namedSet(scanner.until(':'))
    if (!scanner.take(']')) throw new RegexFault('premature end of char-class')
    return set
  }
  const from = parsePoint(scanner)
  if (typeof from !== 'number') return from
  if (scanner.peek() !== '-' || scanner.peek(1) === ']' || scanner.peek(1) === undefined)
    return (point) => point === from
  scanner.next()
  const to = parsePoint(scanner)
  if (typeof to !== 'number') return (point) => point === from || point === 45 || to(point)
  if (to < from) throw new RegexFault('empty range in char class')
  return (point) => point >= from && point <= to
}

function parsePoint(scanner: Scanner): number | PointSet {
  const sign = scanner.next()
  if (sign !== '\\') return sign.codePointAt(0) ?? 0
  const letter = scanner.next()
  if (letter === 'b') return 8
  if ((letter === 'p' || letter === 'P') && scanner.take('{')) {
    const set = namedSet(scanner.until('}'))
    return letter === 'p' ? set : negated(set)
  }
  return classOf(letter) ?? scanner.escaped(letter)
}
