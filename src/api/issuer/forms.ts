/** Reads the forms of the platform's pages, and sends the pages. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import { Problem } from '../../core/problem.ts'
import { redactText } from '../../core/redact.ts'
import { escapesUtf8 } from '../../core/text/utf8.ts'
import { hasValidLength } from '../../features/identity/accounts/passwords.ts'
import type { Requester } from '../../features/identity/issuer/audit-events.ts'
import type { Credentials } from '../../features/identity/issuer/sign-in.ts'
import { ISSUER_LIMITS } from '../../features/identity/limits.ts'
import { type Page, plainPage } from '../../features/identity/pages/pages.ts'
import { parseText } from '../body-text.ts'

export const requesterOf = ({ ip, id }: FastifyRequest): Requester => ({ address: ip, requestId: id })

/** The token of a link, in the query, which is never logged. */
export function tokenOf({ query }: FastifyRequest): string {
  const { token } = query as { token?: unknown }
  return typeof token === 'string' ? token : ''
}

const FORM_BYTES_MAX = 8_192

export type Form = Readonly<Record<string, string>>

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A route of pages for people, whose errors are pages as well. */
    readonly isPage?: boolean
  }
}

/** Makes a part of the application one of pages: it accepts forms only. */
export function readForms(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, isPage: true }
    route.bodyLimit ??= FORM_BYTES_MAX
  })
  app.removeAllContentTypeParsers()
  parseText(app, ['application/x-www-form-urlencoded'], formFields)
}

function formFields(text: string): Form {
  if (!escapesUtf8(text)) throw new Problem('body_invalid', { detail: 'The form is not valid UTF-8.' })
  return Object.fromEntries(new URLSearchParams(text))
}

/**
 * Rejects forms of other sites, in addition to SameSite cookies: also those without an origin (`null`), such as of a sandboxed
 * frame. A browser may know this API by another address, and then says itself that the form is of the same site.
 * @param origin of this API
 * @throws Problem `forbidden`
 */
export function rejectCrossSite({ headers }: FastifyRequest, origin: string): void {
  const site = headers['sec-fetch-site']
  const isOther = headers.origin !== undefined && headers.origin !== origin && site !== 'same-origin'
  const isForeign = site !== undefined && site !== 'same-origin' && site !== 'none'
  if (isOther || isForeign || headers.origin === 'null')
    throw new Problem('forbidden', { detail: 'This form comes from another site.' })
}

export const formOf = ({ body }: FastifyRequest): Form => (body ?? {}) as Form

/** The credentials in a form that asks for the tenant. */
export const credentialsIn = (
  { tenant = '', email = '' }: Form,
  { ip }: FastifyRequest,
  password = '',
): Credentials => ({ tenant: tenant.trim(), email: email.trim(), password, network: networkOf(ip) })

/** A problem as a page, without the hint for clients of the API; undefined unless a person is looking at the route. */
export function problemPage(problem: Problem, request: FastifyRequest): Page | undefined {
  const { isPage } = request.routeOptions.config
  if (isPage !== true || !/\btext\/html\b/.test(request.headers.accept ?? '')) return undefined
  const { row, status, detail = 'Go back, and try again.' } = problem
  const report = status >= 500 ? ` If the error persists, report the request id ${request.id}.` : ''
  return plainPage(row.title, `${redactText(detail)}${report}`, status)
}

export const show = (reply: FastifyReply, { status, headers, html }: Page) =>
  reply.code(status).headers(headers).send(html)

/** Why a new password is not accepted; undefined if it is. */
export function passwordError({ password = '', again = '' }: Form): string | undefined {
  const { passwordCharsMin: least, passwordCharsMax: most } = ISSUER_LIMITS
  if (password !== again) return 'The two passwords are not the same.'
  return hasValidLength(password) ? undefined : `A password must have ${least} to ${most} characters.`
}
