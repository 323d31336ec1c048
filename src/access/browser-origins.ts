/** The origins of web pages that may use a workspace's credentials: the setting `cors.origins`, and the check of a request. */

import Type from 'typebox'
import type { Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { sql } from '../infra/postgres/sql.ts'

const ORIGINS_MAX = 100

export const Origins = Type.Array(
  Type.String({
    maxLength: 300,
    description:
      'Origin of a page as browsers send it (`https://app.example.com`, `http://localhost:5173`), `https://*.example.com` for all hosts below `example.com`, or `*` for any page.',
  }),
  { maxItems: ORIGINS_MAX, uniqueItems: true },
)

/** The origins of a workspace whose row of `services`, if it has one, is joined as `s`; the column has the same default. */
export const ORIGINS_COLUMN = sql`coalesce(s.cors_origins, '["*"]') as origins`

/** @throws Problem `validation_failed` for an entry that no browser would send */
export function checkOrigins(origins: readonly string[]): void {
  const errors = origins.flatMap((origin, index) =>
    isOrigin(origin)
      ? []
      : [
          {
            in: 'body',
            name: 'cors',
            pointer: `/cors/origins/${index}`,
            detail: `is no origin; ${suggestion(origin)}`,
          } as const,
        ],
  )
  const detail = 'cors.origins has an entry that is not the origin of a page.'
  if (errors.length > 0) throw new Problem('validation_failed', { detail, errors })
}

/** True for the serialization of a tuple origin (RFC 6454 §6.2), whose host may begin with `*.`, and for `*`. */
function isOrigin(text: string): boolean {
  if (text === '*') return true
  const literal = text.replace('://*.', '://')
  return /^https?:\/\//.test(literal) && !literal.includes('*') && originOf(literal) === literal
}

/** Undefined if the text is no URL. */
function originOf(text: string): string | undefined {
  return URL.canParse(text) ? new URL(text).origin : undefined
}

function suggestion(text: string): string {
  const origin = originOf(text)
  return origin === undefined || origin === 'null' || origin === text
    ? 'write scheme and host: https://app.example.com'
    : `did you mean ${origin}?`
}

/** @param origin the header `Origin`, which is `null` for a page without one (a file, a sandboxed frame) */
function allows(origins: readonly string[], origin: string): boolean {
  return origins.some((allowed) => {
    if (allowed === '*' || allowed === origin) return true
    const [scheme = '', suffix] = allowed.split('*')
    return suffix !== undefined && origin.startsWith(scheme) && origin.endsWith(suffix)
  })
}

/**
 * Checks a request that a page has sent. Programs send no `Origin` and pass, so this protects a key that is public from use on
 * other sites, and not from anything else.
 * @param ownOrigin that of the request's own URL: pages of the platform itself may use any credential
 * @throws Problem `service_key_in_browser`, `origin_refused`
 */
export function requireOrigin(principal: Principal, origin: string | undefined, ownOrigin: string): void {
  if (origin === undefined || origin === ownOrigin) return
  if (principal.key?.kind === 'service') throw new Problem('service_key_in_browser')
  const { origins } = principal
  if (origins === undefined || allows(origins, origin)) return
  const named = JSON.stringify(origin.slice(0, 300))
  throw new Problem('origin_refused', {
    detail: `Pages of ${named} may not use credentials of this workspace: its setting cors.origins does not list them.`,
  })
}
