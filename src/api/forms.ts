/** How pages of ours take forms: small, of the same site, answered with another page. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../core/problem.ts'
import type { Page } from '../platform/identity/pages.ts'

const FORM_BYTES_MAX = 8_192

export type Form = Readonly<Record<string, string>>

/** The routes of this part take forms and nothing else. */
export function readForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: FORM_BYTES_MAX },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  )
}

/**
 * Cookies are not sent from other sites (SameSite); browsers say besides whence a form comes. From a page that has the
 * referrer policy of ours, the origin is `null`.
 * @param origin our own
 * @throws Problem `forbidden`
 */
export function refuseOtherSites({ headers }: FastifyRequest, origin: string): void {
  const site = headers['sec-fetch-site']
  const foreign = headers.origin !== undefined && headers.origin !== origin && headers.origin !== 'null'
  if (foreign || (site !== undefined && site !== 'same-origin' && site !== 'none'))
    throw new Problem('forbidden', { detail: 'This form comes from another site.' })
}

export const formOf = ({ body }: FastifyRequest): Form => (body ?? {}) as Form

export const show = (reply: FastifyReply, { status, headers, html }: Page) =>
  reply.code(status).headers(headers).send(html)
