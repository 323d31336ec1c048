/** Knows how a text looks where somebody has written it down: in an address, a form, JSON, or base64. */

/** The text within a JSON string, without the quotes around it. */
export const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** The text as a value of a form (application/x-www-form-urlencoded). */
export const inForm = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1)

/** All spellings but the text itself, each once. */
export function spellingsOf(text: string): ReadonlySet<string> {
  const percent = encodeURIComponent(text)
  // What a URL adds to that of itself: RFC 3986 reserves more than is encoded above.
  const strict = percent.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  const quoted = percent.replaceAll("'", '%27')
  const encoded = [percent, strict, quoted, inForm(text)]
  const all = [...encoded, ...encoded.map(lowerHex), inJson(text), inJson(inJson(text)), ...inBase64(text)]
  return new Set(all.filter((one) => one !== text))
}

const lowerHex = (text: string) => text.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

/** The middle of it, for each of the three places that it may begin at within a group of bytes. */
function inBase64(text: string): readonly string[] {
  const bytes = Buffer.from(text)
  return [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '')
    const first = Math.ceil((before * 8) / 6)
    const last = Math.floor(((before + bytes.length) * 8) / 6)
    const middle = whole.slice(first, last)
    return [middle, middle.replaceAll('+', '-').replaceAll('/', '_')]
  })
}
