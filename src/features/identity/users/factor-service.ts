/** Handles second factors and passkeys of users: checks them at a sign-in, and changes them on the account page. */

import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import type { IssuerServices } from '../issuer/issuer-services.ts'
import type { ProvenIdentity } from './identities-store.ts'
import type { TotpSetup } from './second-factors.ts'
import { reportSignInChange } from './sign-in-changes.ts'
import type { UserAccount, UserWorkspace } from './users-store.ts'

type Services = Pick<IssuerServices, 'config' | 'users' | 'secondFactors' | 'passkeys' | 'userMails'>

/** A code that was entered after the password. */
interface CodeForm {
  readonly ticket: string
  readonly code: string
  /** Identifies the sign-in, as when the ticket was issued. */
  readonly at: string
  /** The client or page, for the audit log. */
  readonly clientId: string
}

/** A passkey that a page sends. */
interface PasskeyForm extends Pick<CodeForm, 'at' | 'clientId'> {
  readonly credential: string
  /** The client's network, as `networkOf` returns it. */
  readonly network: string
}

interface Checked {
  readonly user: UserAccount
  readonly identity: ProvenIdentity | undefined
}

export class FactorService {
  readonly #services: Services
  readonly #audit: IssuerAudit
  readonly #throttle = new AttemptThrottle()

  constructor(services: Services, audit: IssuerAudit) {
    this.#services = services
    this.#audit = audit
  }

  /**
   * @returns the user if the code is right and the user belongs to the workspace of the sign-in, with the identity at a provider that
   *   came before the code; otherwise the reason of the refusal
   */
  async checkCode(
    by: Requester,
    { workspaceId }: UserWorkspace,
    { ticket, code, at, clientId }: CodeForm,
  ): Promise<Checked | 'expired' | 'changed' | 'wrong_code' | 'too_many'> {
    const { secondFactors, users } = this.#services
    const pending = secondFactors.pending(ticket, at)
    const user = pending && (await users.find(pending.userId))
    if (pending === undefined) return 'expired'
    if (user?.generation !== pending.generation || user.workspaceId !== workspaceId) return 'changed'
    const checked = await this.#verify(by, user, code, clientId)
    return typeof checked === 'string' ? checked : { user, identity: pending.identity }
  }

  /** Enables the second factor. @returns the recovery codes; undefined if the code is wrong */
  async enableTotp(
    by: Requester,
    workspace: UserWorkspace,
    user: UserAccount,
    setup: TotpSetup,
    code: string,
  ) {
    const codes = await this.#services.secondFactors.enable(user, setup, code)
    if (codes !== undefined)
      this.#changed(
        by,
        workspace,
        user,
        'user.enable_totp',
        'Sign-in now asks for a code of an authenticator app.',
      )
    return codes
  }

  /** Disables the second factor, with one of its codes. */
  async disableTotp(by: Requester, workspace: UserWorkspace, user: UserAccount, code: string) {
    const checked = await this.#verify(by, user, code, 'account')
    if (typeof checked === 'string') return checked
    await this.#services.secondFactors.disable(user)
    const text = 'Sign-in no longer asks for a code of an authenticator app.'
    this.#changed(by, workspace, user, 'user.disable_totp', text)
    return 'done'
  }

  /**
   * @param credential as JSON @param at the sign-in, as in its challenge
   * @returns the user of this workspace whose passkey it is, or why there is none
   */
  async checkPasskey(
    by: Requester,
    workspace: UserWorkspace,
    { credential, at, clientId, network }: PasskeyForm,
  ): Promise<UserAccount | 'wrong_passkey' | 'too_many'> {
    const { passkeys, users } = this.#services
    const { tenantId, workspaceId } = workspace
    const refuse = (reason: 'wrong_passkey' | 'too_many', accountId?: string) => {
      this.#audit.signInRefused(by, { tenantId, workspaceId, accountId, clientId }, reason)
      return reason
    }
    if (!this.#throttle.admit(network, this.#services.config.TENON_SIGN_INS_PER_ADDRESS))
      return refuse('too_many')
    const userId = await passkeys.authenticate(workspace, at, credential)
    const user = userId === undefined ? undefined : await users.find(userId)
    if (user?.workspaceId !== workspaceId) return refuse('wrong_passkey', userId)
    this.#throttle.uncount(network)
    return user
  }

  /** Stores a passkey. @returns false if it is not valid */
  async addPasskey(
    by: Requester,
    workspace: UserWorkspace,
    user: UserAccount,
    { name, credential }: { readonly name: string; readonly credential: string },
  ): Promise<boolean> {
    if (!(await this.#services.passkeys.register(user, name, credential))) return false
    this.#changed(by, workspace, user, 'user.add_passkey', 'A passkey can now sign in to your account.')
    return true
  }

  /** @returns false if the user has no such passkey */
  async deletePasskey(by: Requester, workspace: UserWorkspace, user: UserAccount, id: string) {
    if (!(await this.#services.passkeys.delete(user, id))) return false
    this.#changed(by, workspace, user, 'user.delete_passkey', 'A passkey of your account was deleted.')
    return true
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
    const { userMails } = this.#services
    reportSignInChange({ audit: this.#audit, userMails }, { by, user, brand }, operation, text)
  }
}
