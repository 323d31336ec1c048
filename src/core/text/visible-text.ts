/** Detects characters that are invisible or change the reading order of a text. */

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
