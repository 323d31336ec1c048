/** Tells of a change of the ways in which a user can sign in. */

import type { IssuerAudit, Requester } from '../audit-events.ts'
import type { UserMails } from './user-mails.ts'
import type { UserAccount, UserWorkspace } from './users-store.ts'

/**
 * Records that a user can sign in otherwise than before, and mails it to the user.
 * @param text one sentence about the account, which the mail calls `it`
 */
export function tellSignInChanged(
  { audit, userMails }: { readonly audit: IssuerAudit; readonly userMails: UserMails },
  { by, user, brand }: { by: Requester; user: UserAccount } & Pick<UserWorkspace, 'brand'>,
  operation: string,
  text: string,
): void {
  audit.userChanged(by, user, operation)
  userMails.factorsChanged({ to: user.email, brandName: brand.name }, text)
}
