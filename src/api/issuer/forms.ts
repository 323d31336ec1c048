/** Reads the forms of the platform's pages, and sends the pages. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Requester } from '../../access/issuer/audit-events.ts'
import type { Page } from '../../access/issuer/pages.ts'
import { hasValidLength } from '../../access/issuer/passwords.ts'
import type { Credentials } from '../../access/issuer/sign-in.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { escapesUtf8 } from '../../core/utf8.ts'
import { parseText } from '../body-text.ts'

export const requesterOf = ({ ip, id }: FastifyRequest): Requester => ({ address: ip, requestId: id })

/** The token of a link, in the query, which is never logged. */
export function tokenOf({ query }: FastifyRequest): string {
  const { token } = query as { token?: unknown }
  return typeof token === 'string' ? token : ''
}

const FORM_BYTES_MAX = 8_192

export type Form = Readonly<Record<string, string>>

/** Makes a part of the application accept forms only. */
export function readForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  parseText(app, ['application/x-www-form-urlencoded'], formFields, { bodyLimit: FORM_BYTES_MAX })
}

function formFields(text: string): Form {
  if (!escapesUtf8(text)) throw new Problem('body_invalid', { detail: 'The form is not valid UTF-8.' })
  return Object.fromEntries(new URLSearchParams(text))
}

/**
 * Rejects forms of other sites, in addition to SameSite cookies. With the referrer policy of these pages, browsers send
 * the origin `null`.
 * @param origin of this API
 * @throws Problem `forbidden`
 */
export function rejectCrossSite({ headers }: FastifyRequest, origin: string): void {
  const site = headers['sec-fetch-site']
  const foreign = headers.origin !== undefined && headers.origin !== origin && headers.origin !== 'null'
  if (foreign || (site !== undefined && site !== 'same-origin' && site !== 'none'))
    throw new Problem('forbidden', { detail: 'This form comes from another site.' })
}

export const formOf = ({ body }: FastifyRequest): Form => (body ?? {}) as Form

/** The credentials in a form that asks for the tenant. */
export const credentialsIn = (
  { tenant = '', email = '' }: Form,
  { ip }: FastifyRequest,
  password = '',
): Credentials => ({ tenant: tenant.trim(), email: email.trim(), password, network: networkOf(ip) })

export const show = (reply: FastifyReply, { status, headers, html }: Page) =>
  reply.code(status).headers(headers).send(html)

/** Why a new password is not accepted; undefined if it is. */
export function passwordError({ password = '', again = '' }: Form): string | undefined {
  const { passwordCharsMin: least, passwordCharsMax: most } = LIMITS
  if (password !== again) return 'The two are not the same.'
  return hasValidLength(password) ? undefined : `A password has ${least} to ${most} characters.`
}
