/** Reports changes of the ways in which a user can sign in. */

import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import type { UserMails } from '../pages/user-mails.ts'
import type { UserAccount, UserWorkspace } from './users-store.ts'

/**
 * Writes the change to the audit log, and mails it to the user.
 * @param operation the audited operation, such as `user.add_passkey`
 * @param text a sentence that describes the change in the mail
 */
export function reportSignInChange(
  { audit, userMails }: { readonly audit: IssuerAudit; readonly userMails: UserMails },
  { by, user, brand }: { by: Requester; user: UserAccount } & Pick<UserWorkspace, 'brand'>,
  operation: string,
  text: string,
): void {
  audit.userChanged(by, user, operation)
  userMails.factorsChanged({ to: user.email, brandName: brand.name }, text)
}
