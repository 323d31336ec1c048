/** Demands a sign-in that is recent enough, or had a second factor (OAuth 2.0 Step Up Authentication Challenge, RFC 9470). */

import type { AnyOperation } from '../core/operation.ts'
import type { Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { ACR } from './authentication/claims.ts'
import { ACCESS_LIMITS } from './limits.ts'

const MAX_AGE_S = ACCESS_LIMITS.recentProofSeconds

/**
 * API keys and gateways prove themselves with each request, so nothing is asked of them.
 * @throws Problem `insufficient_user_authentication`
 */
export function requireRecentProof(operation: AnyOperation, { proof }: Principal, input: unknown): void {
  const { recentProof = false, name } = operation
  const isNeeded = typeof recentProof === 'function' ? recentProof(input) : recentProof
  if (!isNeeded || proof === undefined) return
  const { atMs = Number.NEGATIVE_INFINITY, isPerson, isMultiFactor, hasSecondFactor } = proof
  const isRecent = Date.now() - atMs <= MAX_AGE_S * 1_000
  if (isRecent && (isMultiFactor || !hasSecondFactor)) return
  const minutes = `${MAX_AGE_S / 60} minutes`
  if (!isPerson)
    throw stepUp({
      detail: `${name} needs a token that is at most ${minutes} old.`,
      hint: 'Get another token with the secret of the client, and repeat the request: `npx tenon token`.',
    })
  const factor = hasSecondFactor ? ' with the second factor of the account' : ''
  throw stepUp({
    detail: `${name} needs a sign-in${factor} that is at most ${minutes} old.`,
    hint: `Sign in again${factor}, with \`npx tenon login\` or at the authorization endpoint with the parameters of this problem and the scope openid (RFC 9470). Then repeat the request with the new token.`,
    acr: hasSecondFactor ? ACR.multi : undefined,
  })
}

/** The refusal of a sign-in without a second factor where one is required. @param accountUrl the page on which one is added */
export const secondFactorRequired = (accountUrl: string): Problem =>
  stepUp({
    detail: 'Accounts like this one may do nothing without a second factor.',
    hint: `Sign in again with the second factor. If the account has none yet, add one at ${accountUrl} first.`,
    acr: ACR.multi,
    maxAgeS: undefined,
    members: { account_url: accountUrl },
  })

interface StepUp {
  readonly detail: string
  readonly hint: string
  readonly acr?: string | undefined
  /** Default: that of a recent proof. */
  readonly maxAgeS?: number | undefined
  readonly members?: Readonly<Record<string, unknown>>
}

function stepUp({ detail, hint, acr, members, ...given }: StepUp): Problem {
  const maxAge = 'maxAgeS' in given ? given.maxAgeS : MAX_AGE_S
  const asked = {
    ...(maxAge !== undefined && { max_age: maxAge }),
    ...(acr !== undefined && { acr_values: acr }),
  }
  const parameters = { error: 'insufficient_user_authentication', error_description: detail, ...asked }
  const challenge = Object.entries(parameters).map(([name, value]) => `${name}="${value}"`)
  return new Problem('insufficient_user_authentication', {
    ...{ detail, hint, members: { ...asked, ...members } },
    headers: { 'www-authenticate': `Bearer realm="tenon", ${challenge.join(', ')}` },
  })
}
