/** Digests of texts: names of versions, of arguments, of cut names. */

import { createHash } from 'node:crypto'

/** SHA-256 of a text, hex. */
export const digest = (text: string) => createHash('sha256').update(text).digest('hex')
