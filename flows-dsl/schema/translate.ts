/**
 * Knows how a regular expression of ECMA-262, which JSON Schema has, is written for the engine of expressions, which has
 * Oniguruma's. What the two understand differently is written out.
 */

const TOKEN =
  /\\u\{([0-9a-fA-F]+)\}|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(?:c[A-Za-z]|0)|\\[\s\S]|[\s\S]/gu
const OUTSIDE: Readonly<Record<string, string>> = {
  '\\d': '[0-9]',
  '\\D': '[^0-9]',
  '\\w': '[A-Za-z0-9_]',
  '\\W': '[^A-Za-z0-9_]',
  '.': '[^\\n\\r\\u2028\\u2029]',
  $: '\\z',
}
const INSIDE: Readonly<Record<string, string>> = { '\\d': '0-9', '\\w': 'A-Za-z0-9_', '[': '\\[' }

/** The same expression, which must be a valid one; undefined where it cannot be written. */
export function translated(pattern: string): string | undefined {
  let text = ''
  /** Where the set that is being read begins in `text`. */
  let set: number | undefined
  for (const [token, point, high, low, unit] of pattern.matchAll(TOKEN)) {
    const known = set === undefined ? OUTSIDE : INSIDE
    const isEnd = set !== undefined && token === ']'
    // Oniguruma has no set of nothing, or of everything, and none within a set.
    if (isEnd && /^\[\^?$/.test(text.slice(set))) return undefined
    if (set !== undefined && (token === '\\D' || token === '\\W')) return undefined
    if (set === undefined && token === '[') set = text.length
    if (high !== undefined && low !== undefined) text += `\\x{${paired(high, low)}}`
    else if (point !== undefined || unit !== undefined) text += `\\x{${point ?? unit}}`
    else if (/^\\(?:c|0)/.test(token)) text += `\\x{${controlOf(token)}}`
    else text += (Object.hasOwn(known, token) && known[token]) || token
    if (isEnd) set = undefined
  }
  return text
}

function paired(high: string, low: string): string {
  const point = (Number.parseInt(high, 16) - 0xd800) * 0x400 + Number.parseInt(low, 16) - 0xdc00 + 0x10000
  return point.toString(16)
}

function controlOf(token: string): string {
  return token === '\\0' ? '0' : (token.charCodeAt(2) % 32).toString(16)
}
