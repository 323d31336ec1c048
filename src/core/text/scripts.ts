/** Tells if a name has letters of several scripts: with a Cyrillic а among the Latin letters, it imitates another one. */

/** The scripts in common modern use (UAX #31, table 5). */
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
