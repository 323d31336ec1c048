/** Reads the text of a request body: UTF-8 without a content coding, or the request is refused. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Problem } from '../core/problem.ts'
import { decodeUtf8 } from '../core/text/utf8.ts'

/**
 * Makes a part of the application parse bodies of some types.
 * @param parse gets the text of a body that is not empty: many clients send the type without one
 */
export function parseText(
  app: FastifyInstance,
  types: readonly string[],
  parse: (text: string) => unknown,
): void {
  app.addContentTypeParser([...types], { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const text = textOf(request, body as Buffer)
      done(null, text === '' ? undefined : parse(text))
    } catch (error) {
      done(error as Error)
    }
  })
}

/** @throws Problem `media_type_unsupported` for another charset or a content coding, `body_invalid` for bytes that are not UTF-8 */
function textOf({ headers }: FastifyRequest, body: Buffer): string {
  const coding = headers['content-encoding']
  if (coding !== undefined && coding.trim().toLowerCase() !== 'identity')
    throw new Problem('media_type_unsupported', {
      detail: `The body has the content coding ${coding.slice(0, 50)}; this route takes bodies without one.`,
      hint: 'Send the body uncompressed, without Content-Encoding.',
      headers: { 'accept-encoding': 'identity' },
    })
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(headers['content-type'] ?? '')?.[1]
  if (charset !== undefined && !UTF_8.test(charset))
    throw new Problem('media_type_unsupported', {
      detail: `The body has the charset ${charset.slice(0, 50)}; this route takes UTF-8.`,
      hint: 'Encode the body as UTF-8, and send charset=utf-8 or none.',
    })
  return decodeUtf8(body)
}

/** ASCII is a part of UTF-8; other bytes are checked as UTF-8 all the same. */
const UTF_8 = /^(utf-?8|us-ascii)$/i
