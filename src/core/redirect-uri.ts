/** Where a browser may be sent with a code: an https page, or the person's own machine. */

const LOOPBACKS = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** Whether a public client may have it: spelled as browsers spell it, without user, password, fragment or asterisk. */
export function isRedirectUri(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { href, protocol, hostname, username, password, hash } = new URL(text)
  // `https://app.test` and `https://app.test/` are one address; in a comparison byte for byte they are two.
  const plain = text === href || `${text}/` === href
  // Browsers take `a;b.test` for a host as well. In a header, `;` and `,` begin something new.
  if (!/^([\w.-]+|\[[\da-f:.]+\])$/.test(hostname)) return false
  const bare = username === '' && password === '' && hash === '' && !/[#*]/.test(text)
  return plain && bare && (protocol === 'https:' || (protocol === 'http:' && LOOPBACKS.has(hostname)))
}
