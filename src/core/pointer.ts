/** Names of members as reference tokens of JSON pointers. */

/** RFC 6901 §3. */
export const token = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

/** The same of a name that a caller chose: a very long one is cut, since a reply must not grow with it. */
export const cutToken = (name: string): string => token(name.slice(0, 100))
