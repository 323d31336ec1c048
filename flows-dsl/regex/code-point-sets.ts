/** Implements sets of code points: `\d`, `\p{Letter}`, `[:alpha:]`, negation, case-insensitivity. */

/** Tests if a set contains a code point. */
export type PointSet = (point: number) => boolean

/** The error of a text that is not a regular expression. */
export class RegexError extends Error {}

const WORD = /^[\p{L}\p{M}\p{Nd}\p{Pc}]$/u
const NAME = /^\^?[A-Za-z][A-Za-z0-9_]*$/

/** Names of POSIX classes, which Oniguruma accepts as names of properties as well. */
const POSIX: Readonly<Record<string, RegExp>> = {
  alnum: /^[\p{L}\p{M}\p{Nd}]$/u,
  alpha: /^[\p{L}\p{M}]$/u,
  ascii: /^[\0-\x7f]$/u,
  blank: /^[\t\p{Zs}]$/u,
  cntrl: /^\p{Cc}$/u,
  digit: /^\p{Nd}$/u,
  graph: /^[^\s\p{Cc}\p{Cn}\p{Cs}]$/u,
  lower: /^\p{Lowercase}$/u,
  print: /^[^\p{Cc}\p{Cn}\p{Cs}]$/u,
  punct: /^[\p{P}$+<=>^`|~]$/u,
  space: /^\p{White_Space}$/u,
  upper: /^\p{Uppercase}$/u,
  word: WORD,
  xdigit: /^[0-9A-Fa-f]$/u,
}

export const isWord: PointSet = setOf(WORD)

const CLASSES: Readonly<Record<string, PointSet>> = {
  d: setOf(/^\p{Nd}$/u),
  w: isWord,
  s: setOf(/^\p{White_Space}$/u),
}

/** A set with a table for ASCII, to which most code points belong. */
function setOf(pattern: RegExp): PointSet {
  const small = Array.from({ length: 128 }, (_, point) => pattern.test(String.fromCodePoint(point)))
  return (point) => small[point] ?? pattern.test(String.fromCodePoint(point))
}

/** `\d`, `\w`, `\s` and their negations. */
export function classOf(letter: string): PointSet | undefined {
  const set = CLASSES[letter.toLowerCase()]
  if (set === undefined || letter === letter.toLowerCase()) return set
  return negated(set)
}

export function negated(set: PointSet): PointSet {
  return (point) => !set(point)
}

/** Sets by name. Bounded, because only the few hundred existing names get here. */
const NAMED = new Map<string, PointSet>()

/** `[:name:]` and `\p{name}`; a `^` before the name negates. @throws RegexError if there is no such set */
export function namedSet(name: string): PointSet {
  const set = NAMED.get(name) ?? newNamedSet(name)
  NAMED.set(name, set)
  return set
}

function newNamedSet(name: string): PointSet {
  if (!NAME.test(name)) throw new RegexError('invalid character property name')
  const plain = name.replace('^', '')
  const posix = plain.toLowerCase()
  const pattern = Object.hasOwn(POSIX, posix) ? POSIX[posix] : propertyOf(plain)
  if (pattern === undefined) throw new RegexError(`invalid character property name {${name}}`)
  return name === plain ? setOf(pattern) : negated(setOf(pattern))
}

function propertyOf(name: string): RegExp | undefined {
  for (const property of [name, `Script=${name}`]) {
    try {
      return new RegExp(`^\\p{${property}}$`, 'u')
    } catch {
      // The engine has no property of this name.
    }
  }
  return undefined
}

/** The set extended by the other case of its letters. */
export function caseless(set: PointSet): PointSet {
  return (point) => {
    if (set(point)) return true
    const letter = String.fromCodePoint(point)
    return other(letter.toLowerCase(), point, set) || other(letter.toUpperCase(), point, set)
  }
}

function other(letter: string, point: number, set: PointSet): boolean {
  const changed = letter.codePointAt(0) ?? point
  return changed !== point && String.fromCodePoint(changed).length === letter.length && set(changed)
}
