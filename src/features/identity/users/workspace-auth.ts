/** Stores and shows the setting `auth` of a workspace for its admins. */

import type { Static } from 'typebox'
import type { AdminScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { canSendMail, providerSettingsOf } from '../identity-services.ts'
import {
  AUTH_DEFAULTS,
  type AuthInput,
  type AuthSettings,
  checkBranding,
  type StoredAuth,
} from './auth-settings.ts'

interface Present {
  readonly ref: WorkspaceRef
  readonly auth: Partial<StoredAuth>
  /** `host:port` texts that providers may have at any address. */
  readonly egressAllowed: readonly string[]
}

/**
 * The setting with encrypted secrets.
 * @param readPresent reads the present settings: providers that stay keep their secrets
 * @throws Problem `validation_failed` for a logo or colour that pages cannot show, or an unusable provider; `state_conflict`
 *   without a mail server
 */
export async function authToStore(
  scope: AdminScope,
  { providers, ...auth }: Static<typeof AuthInput>,
  readPresent: () => Promise<Present>,
): Promise<Partial<StoredAuth>> {
  if (auth.branding !== undefined) checkBranding(auth.branding)
  if (auth.sign_up === 'open' && !canSendMail(scope))
    throw new Problem('state_conflict', {
      detail: 'Users who sign up need a mail, and this platform cannot send mails.',
      hint: 'Invitations work without mail.',
      adminHint: 'An operator sets SMTP_URL, or TENON_MAIL_DIR for development.',
    })
  if (providers === undefined) return auth
  const { ref, auth: stored, egressAllowed } = await readPresent()
  const present = { stored: stored.providers ?? [], egressAllowed, by: scope.actor.subject }
  return { ...auth, providers: providerSettingsOf(scope).toStore(ref, providers, present) }
}

/** The setting as admins see it: with its defaults, and without secrets. */
export function authToShow(scope: AdminScope, ref: WorkspaceRef, stored: Partial<StoredAuth>): AuthSettings {
  const { providers, ...auth } = { ...AUTH_DEFAULTS, ...stored }
  return { ...auth, providers: providerSettingsOf(scope).toShow(ref, providers) }
}
