/** Handles the second factor of users: checks codes at a sign-in, and switches it on and off on the account page. */

import type { IssuerAudit, Requester } from '../audit-events.ts'
import type { IssuerServices } from '../issuer-services.ts'
import type { TotpSetup } from './second-factors.ts'
import type { UserAccount, UserWorkspace } from './users-store.ts'

type Services = Pick<IssuerServices, 'users' | 'secondFactors' | 'userMails'>

/** A code that was entered after the password. */
interface CodeForm {
  readonly ticket: string
  readonly code: string
  /** Identifies the sign-in, as when the ticket was issued. */
  readonly at: string
  /** The client or page, for the audit log. */
  readonly clientId: string
}

export class FactorService {
  readonly #services: Services
  readonly #audit: IssuerAudit

  constructor(services: Services, audit: IssuerAudit) {
    this.#services = services
    this.#audit = audit
  }

  /** @returns the user who has entered a right code, in the workspace of the sign-in, or why there is none */
  async checkCode(
    by: Requester,
    { workspaceId }: UserWorkspace,
    { ticket, code, at, clientId }: CodeForm,
  ): Promise<UserAccount | 'expired' | 'wrong_code' | 'too_many'> {
    const { secondFactors, users } = this.#services
    const pending = secondFactors.pending(ticket, at)
    const user = pending && (await users.find(pending.userId))
    if (user?.generation !== pending?.generation || user?.workspaceId !== workspaceId) return 'expired'
    return this.#verify(by, user, code, clientId)
  }

  /** Switches the second factor on. @returns the recovery codes; undefined if the code is wrong */
  async switchOn(by: Requester, workspace: UserWorkspace, user: UserAccount, setup: TotpSetup, code: string) {
    const codes = await this.#services.secondFactors.switchOn(user, setup, code)
    if (codes !== undefined)
      this.#changed(
        by,
        workspace,
        user,
        'user.enable_totp',
        'It asks for a code of an authenticator app now.',
      )
    return codes
  }

  /** Switches the second factor off, with a code of it. */
  async switchOff(by: Requester, workspace: UserWorkspace, user: UserAccount, code: string) {
    const checked = await this.#verify(by, user, code, 'account')
    if (typeof checked === 'string') return checked
    await this.#services.secondFactors.switchOff(user)
    const text = 'It asks for no code of an authenticator app any more.'
    this.#changed(by, workspace, user, 'user.disable_totp', text)
    return 'done'
  }

  async #verify(by: Requester, user: UserAccount, code: string, clientId: string) {
    const result = await this.#services.secondFactors.verify(user, code)
    if (result === 'right') return user
    const refused = result === 'wrong' ? 'wrong_code' : result
    const { tenantId, workspaceId, id: accountId } = user
    this.#audit.signInRefused(by, { tenantId, workspaceId, accountId, clientId }, refused)
    return refused
  }

  #changed(
    by: Requester,
    { brand }: UserWorkspace,
    user: UserAccount,
    operation: string,
    text: string,
  ): void {
    this.#audit.userChanged(by, user, operation)
    this.#services.userMails.factorsChanged({ to: user.email, brandName: brand.name }, text)
  }
}
