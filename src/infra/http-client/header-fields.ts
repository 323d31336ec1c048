/** Header fields of HTTP: their syntax, and those that belong to a connection. */

/** RFC 9110 §5.6.2: names of fields, and methods. */
export const isToken = (text: string): boolean => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(text)

/** RFC 9110 §5.5, as the characters that a header can carry: no line break, no NUL. */
export const isFieldValue = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text)

/**
 * True for a field of a connection or a proxy, not of a message (RFC 9110 §7.6.1), and for the framing of a body.
 * @param name in lower case
 */
export const belongsToConnection = (name: string): boolean =>
  /^(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/.test(name)
