/** Reports changes of the ways in which a person can sign in. */

import type { Account } from '../accounts/accounts-store.ts'
import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import type { UserMails } from '../pages/user-mails.ts'
import type { Brand } from './users-store.ts'

/**
 * Writes the change to the audit log, and mails it to the person.
 * @param verb of the audited operation, such as `add_passkey`
 * @param text a sentence that describes the change in the mail
 */
export function reportSignInChange(
  { audit, userMails }: { readonly audit: IssuerAudit; readonly userMails: UserMails },
  { by, person, brand }: { by: Requester; person: Account; brand: Brand | undefined },
  verb: string,
  text: string,
): void {
  audit.personChanged(by, person, verb)
  if (brand === undefined) userMails.accountFactorsChanged(person.email, text)
  else userMails.factorsChanged({ to: person.email, brandName: brand.name }, text)
}
