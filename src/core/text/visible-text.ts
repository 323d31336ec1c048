/** Detects what deceives readers of a text: characters that are invisible or change the reading order, and letters of several scripts. */

/**
 * Members of a character class (flag `u`): controls, format characters (zero-width, bidirectional, tags), private use, line
 * and paragraph separators, letters without a shape (fillers, the Braille blank), and variation selectors that can carry
 * hidden text. U+FE0F is not among them, since emoji need it.
 */
export const HIDDEN =
  '\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Zl}\\p{Zp}\\u{34f}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}\\u{180b}-\\u{180f}\\u{2800}\\u{3164}\\u{fe00}-\\u{fe0e}\\u{ffa0}\\u{e0100}-\\u{e01ef}'

/** For JSON Schema: one line of text without such a character. */
export const VISIBLE_PATTERN = `^[^${HIDDEN}]*$`

const FIRST_HIDDEN = new RegExp(`[${HIDDEN}]`, 'u')

/** Describes the first hidden character for an error message; undefined if there is none. */
export function hiddenIn(text: string): string | undefined {
  const found = FIRST_HIDDEN.exec(text)
  if (found === null) return undefined
  const point = found[0].codePointAt(0)?.toString(16).padStart(4, '0').toUpperCase()
  return `holds the invisible character U+${point} at ${found.index}`
}

/** The scripts in common modern use (UAX #31, table 5). With a Cyrillic а among the Latin letters, a name imitates another one. */
const NAMES = `Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew
  Hiragana Kannada Katakana Khmer Lao Latin Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan`
const SCRIPTS = NAMES.split(/\s+/)

/** Writing systems of several scripts: Japanese, Korean, and Chinese with Bopomofo (UTS #39 §5.1), also beside Latin letters. */
const SYSTEMS = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Hangul'],
  ['Latin', 'Han', 'Bopomofo'],
]

/** Letters that belong to each of the scripts, or to one of them, besides those that belong to all. */
const lettersOf = (scripts: readonly string[]) => {
  const classes = [...scripts, 'Common', 'Inherited'].map((name) => `\\p{Script_Extensions=${name}}`)
  return new RegExp(`^[${classes.join('')}]*$`, 'u')
}
/** Scripts that are no longer in common use count as one. */
const ofNone = () =>
  new RegExp(`^[^${SCRIPTS.map((name) => `\\p{Script_Extensions=${name}}`).join('')}]*$`, 'u')

/** Built on first use: a few milliseconds that most processes do not need. */
let systems: readonly RegExp[] | undefined
const systemsOf = () =>
  (systems ??= [...[...SCRIPTS.map((name) => [name]), ...SYSTEMS].map(lettersOf), ofNone()])

/** The level "highly restrictive" (UTS #39 §5.2): one script, or Latin beside Chinese, Japanese or Korean. */
function isOfOneSystem(text: string): boolean {
  const letters = text.replaceAll(/[^\p{L}\p{M}]+/gu, '')
  return systemsOf().some((system) => system.test(letters))
}

/** True if a word has letters of several scripts, which no language writes. */
export const mixesScriptsInWord = (text: string): boolean =>
  [...text.matchAll(/[\p{L}\p{M}]+/gu)].some(([word]) => !isOfOneSystem(word))

/** True if the words of a text are of several scripts. */
export const mixesScripts = (text: string): boolean => !isOfOneSystem(text)
