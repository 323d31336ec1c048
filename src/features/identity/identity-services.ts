/** Lets an admin's scope act on identity: links, mails, cached state of subjects and clients, signing keys, providers. */

import { hash, randomBytes } from 'node:crypto'
import { ACCOUNT_PAGE } from '../../access/authentication/holder-session.ts'
import type { SigningKeys } from '../../access/authentication/signing-keys.ts'
import type { SubjectStatus } from '../../access/authentication/subject-status.ts'
import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { OAuthClients } from './clients/oauth-clients-store.ts'
import type { Grants } from './issuer/grants.ts'
import type { IssuerState } from './issuer/issuer-state.ts'
import type { UserMails } from './pages/user-mails.ts'
import type { Sessions } from './sessions/sessions.ts'
import type { ProviderSettings } from './users/identity-provider-settings.ts'
import { newLinkToken } from './users/user-links.ts'

declare module '../../access/internals.ts' {
  interface PlatformServices {
    readonly issuerState: IssuerState
    readonly sessions: Sessions
    /** Where people are signed in, and what they have allowed to clients. */
    readonly ownAccess: { readonly sessions: Sessions; readonly grants: Pick<Grants, 'list' | 'end'> }
    readonly oauthClients: OAuthClients
    readonly userMails: UserMails
    readonly identityAdmin: IdentityAdmin
  }
}

/** The services with which admins manage identity. */
interface IdentityAdmin {
  readonly publicUrl: string
  readonly subjectStatus: SubjectStatus
  readonly oauthClients: OAuthClients
  readonly signingKeys: SigningKeys
  readonly userMails: UserMails
  readonly providers: ProviderSettings
}

const servicesOf = privilege('identity.admin')

const INVITATION_BYTES = 32

/** The embedded issuer, for administration. */
export function issuerAdminOf(scope: AdminScope) {
  const { publicUrl, subjectStatus, oauthClients, signingKeys, userMails } = servicesOf(scope)
  return {
    /** Creates an invitation. @returns the page where the password is set, and the digest to store */
    invite: (): { url: string; digest: Buffer } => {
      const token = randomBytes(INVITATION_BYTES).toString('base64url')
      return { url: `${publicUrl}/auth/invitation?token=${token}`, digest: hash('sha256', token, 'buffer') }
    },
    /** Mails a link to set a password. Only if {@link canSendMail}. */
    mailLink: (to: string, url: string): void => userMails.accountLink(to, url),
    /** The page of the own account, on which second factors are added. */
    accountUrl: `${publicUrl}${ACCOUNT_PAGE}`,
    /** The page where account holders change their own password. */
    passwordUrl: `${publicUrl}/auth/password`,
    /** Drops cached state of an account or a user that was signed out, on this node. */
    forgetSubject: (id: string): void => subjectStatus.forget(id),
    /** Drops a cached client that was deleted or has another secret, on this node. */
    forgetClient: (id: string): void => oauthClients.forget(id),
    /** @returns the `kid` of the new signing key. @throws Problem `forbidden` unless the actor is an operator */
    rotateKeys: async (id: string, revoke: boolean): Promise<string> => {
      if (scope.actor.role !== 'operator') throw new Problem('forbidden')
      return signingKeys.rotate(id, revoke)
    },
    /** Signs a token for the REST API that stands for the caller. @param claims all but issuer and audience */
    signForCaller: (claims: Readonly<Record<'exp' | 'iat' | 'jti', unknown>>): Promise<string> =>
      signingKeys.signToken({
        iss: `${publicUrl}/auth`,
        aud: `${publicUrl}/v1`,
        sub: scope.actor.subject,
        ...claims,
      }),
  }
}

/** Checks, encrypts and shows the identity providers of workspaces. */
export const providerSettingsOf = (scope: AdminScope): ProviderSettings => servicesOf(scope).providers

/** True if mails are sent, or stored in a folder. */
export const canSendMail = (scope: AdminScope): boolean => servicesOf(scope).userMails.isConfigured

/** For links that are only mailed. @throws Problem `state_conflict` if the platform sends no mails */
export function requireMail(scope: AdminScope): void {
  if (canSendMail(scope)) return
  throw new Problem('state_conflict', {
    detail:
      'No mail can be sent, because SMTP_URL is not set. Leave `mail` out to get the link in the response.',
  })
}

/** A new invitation of a user: the page where the password is set, the digest to store, and the mail. */
export function userInvitationOf(scope: AdminScope) {
  const { userMails } = servicesOf(scope)
  const { token, digest } = newLinkToken()
  return {
    url: userMails.linkTo(token),
    digest,
    /** Does nothing if no mail can be sent. @param brandName the name of the application, as users know it */
    send: (to: string, brandName: string): void => {
      if (userMails.isConfigured) userMails.invitation({ to, brandName }, token)
    },
  }
}
