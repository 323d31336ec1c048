/** The second step of a sign-in, after the password: a code, or for accounts a passkey in its place. */

import type { SignInPlace } from '../../features/identity/factors/factor-owner.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import { type CODE_ERRORS, codePage } from '../../features/identity/pages/factor-pages.ts'
import type { Page, SignInWays } from '../../features/identity/pages/pages.ts'
import { passkeySignIn } from '../../features/identity/pages/passkey-pages.ts'
import type { Refusal } from '../../features/identity/pages/user-pages.ts'

export interface SecondStep {
  readonly issuer: EmbeddedIssuer
  readonly place: SignInPlace
  /** Identifies the sign-in, for the ticket of a code. */
  readonly at: string
  /** Path that takes the code. */
  readonly action: string
  /** The challenge of a passkey, and the path that takes it. */
  readonly passkey: { readonly at: string; readonly action: string }
  /** Origin that the forms may redirect to. */
  readonly formTarget?: string
}

/** The page that asks for a code. @param ticket as the first step has issued it */
export async function codeStepPage(step: SecondStep, ticket: string, refused?: Refusal): Promise<Page> {
  const { issuer, place, at, action, formTarget = '' } = step
  const pending = issuer.secondFactors.pending(ticket, at)
  const ways = pending && (await passkeyInPlace(step, pending.subjectId))
  return codePage(place, { ticket, action, formTarget, ...(ways && { ways }) }, refused)
}

/** Users of workspaces use a passkey without the password; an account whose factor is a passkey needs it after the password. */
async function passkeyInPlace(
  { issuer: { passkeys }, place, passkey }: SecondStep,
  id: string,
): Promise<SignInWays | undefined> {
  if (place.workspaceId !== undefined || !passkeys.isAvailable) return undefined
  if ((await passkeys.list({ id })).length === 0) return undefined
  return passkeySignIn(passkeys.authenticationOptions(passkey.at), passkey.action)
}

/** True if the sign-in begins again. */
export const beginsAgain = (refused: keyof typeof CODE_ERRORS): boolean =>
  refused === 'expired' || refused === 'changed'
