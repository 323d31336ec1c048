/** Validates redirect URIs of public OAuth clients: https, or a loopback address. */

const LOOPBACKS = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** True for a valid redirect URI: normalised as in browsers, without user, password, fragment or asterisk. */
export function isRedirectUri(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { href, protocol, hostname, username, password, hash } = new URL(text)
  // `https://app.test` and `https://app.test/` are equal URLs but different strings.
  const plain = text === href || `${text}/` === href
  // Browsers accept `a;b.test` as a host, but `;` and `,` are separators in headers.
  if (!/^([\w.-]+|\[[\da-f:.]+\])$/.test(hostname)) return false
  const bare = username === '' && password === '' && hash === '' && !/[#*]/.test(text)
  return plain && bare && (protocol === 'https:' || (protocol === 'http:' && LOOPBACKS.has(hostname)))
}
