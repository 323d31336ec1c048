/** Handles second factors and passkeys of users and accounts: checks them at a sign-in, and changes them on the account page. */

import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import type { Account } from '../accounts/accounts-store.ts'
import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import type { IssuerServices } from '../issuer/issuer-services.ts'
import { findPerson } from '../issuer/subjects.ts'
import type { ProvenIdentity } from '../users/identities-store.ts'
import { reportSignInChange } from '../users/sign-in-changes.ts'
import { isUser } from '../users/users-store.ts'
import { isAt, type SignInPlace } from './factor-owner.ts'
import { type Enrolment, endUnusedCodes, type TotpSetup } from './second-factors.ts'

type Services = Pick<
  IssuerServices,
  'config' | 'accounts' | 'users' | 'secondFactors' | 'passkeys' | 'userMails'
>

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
  readonly person: Account
  readonly identity: ProvenIdentity | undefined
}

export class FactorService {
  readonly #services: Services
  readonly #audit: IssuerAudit
  readonly #throttle = new AttemptThrottle()
  /** People who were told of guesses, once in the time of the limit. */
  readonly #warned = new AttemptThrottle()

  constructor(services: Services, audit: IssuerAudit) {
    this.#services = services
    this.#audit = audit
  }

  /**
   * @returns the person if the code is right and the person signs in at these pages, with the identity at a provider that came
   *   before the code; otherwise the reason of the refusal
   */
  async checkCode(
    by: Requester,
    place: SignInPlace,
    { ticket, code, at, clientId }: CodeForm,
  ): Promise<Checked | 'expired' | 'changed' | 'wrong_code' | 'too_many'> {
    const { secondFactors } = this.#services
    const pending = secondFactors.pending(ticket, at)
    const person = pending && (await findPerson(this.#services, pending.subjectId))
    if (pending === undefined) return 'expired'
    if (person?.generation !== pending.generation || !isAt(person, place)) return 'changed'
    const checked = await this.#verify(by, person, code, clientId)
    return typeof checked === 'string' ? checked : { person, identity: pending.identity }
  }

  /** Enables the second factor. @returns undefined if the code is wrong */
  async enableTotp(by: Requester, place: SignInPlace, person: Account, setup: TotpSetup, code: string) {
    const enrolment = await this.#services.secondFactors.enable(person, setup, code)
    if (enrolment !== undefined)
      this.#changed(by, place, person, 'enable_totp', 'Sign-in now asks for a code of an authenticator app.')
    return enrolment
  }

  /** Disables the second factor, with one of its codes. */
  async disableTotp(by: Requester, place: SignInPlace, person: Account, code: string) {
    const checked = await this.#verify(by, person, code, 'account')
    if (typeof checked === 'string') return checked
    await this.#services.secondFactors.disable(person)
    const text = 'Sign-in no longer asks for a code of an authenticator app.'
    this.#changed(by, place, person, 'disable_totp', text)
    return 'done'
  }

  /**
   * @param credential as JSON @param at the sign-in, as in its challenge
   * @returns the person of these pages whose passkey it is, or why there is none
   */
  async checkPasskey(
    by: Requester,
    place: SignInPlace,
    { credential, at, clientId, network }: PasskeyForm,
  ): Promise<Account | 'wrong_passkey' | 'too_many'> {
    const { passkeys } = this.#services
    const { tenantId, workspaceId } = place
    const refuse = (reason: 'wrong_passkey' | 'too_many', accountId?: string) => {
      this.#audit.signInRefused(by, { tenantId, workspaceId, accountId, clientId }, reason)
      return reason
    }
    if (!this.#throttle.admit(network, this.#services.config.TENON_SIGN_INS_PER_ADDRESS))
      return refuse('too_many')
    const id = await passkeys.authenticate(at, credential)
    const person = id === undefined ? undefined : await findPerson(this.#services, id)
    if (person === undefined || !isAt(person, place)) return refuse('wrong_passkey', person?.id)
    this.#throttle.uncount(network)
    return person
  }

  /** Replaces the recovery codes. @returns undefined if the person has no second factor */
  async renewRecoveryCodes(
    by: Requester,
    place: SignInPlace,
    person: Account,
  ): Promise<readonly string[] | undefined> {
    const codes = await this.#services.secondFactors.renewRecoveryCodes(person)
    if (codes !== undefined)
      this.#changed(by, place, person, 'renew_recovery_codes', 'Your recovery codes were replaced.')
    return codes
  }

  /** Stores a passkey. @returns `enrolment` if it is the first factor of an account; undefined if the passkey is not valid */
  async addPasskey(
    by: Requester,
    place: SignInPlace,
    person: Account,
    { name, credential }: { readonly name: string; readonly credential: string },
  ): Promise<{ readonly enrolment: Enrolment | undefined } | undefined> {
    const { passkeys, secondFactors } = this.#services
    const registration = await passkeys.registration(person, name, credential)
    if (registration === undefined) return undefined
    const added = isUser(person)
      ? (await passkeys.add(registration)) && { enrolment: undefined }
      : await secondFactors.addPasskey(person, registration)
    if (!added) return undefined
    this.#changed(by, place, person, 'add_passkey', 'A passkey can now sign in to your account.')
    return added
  }

  /** @returns false if the person has no such passkey */
  async deletePasskey(by: Requester, place: SignInPlace, person: Account, id: string) {
    if (!(await this.#services.passkeys.delete(person, id, endUnusedCodes(person)))) return false
    this.#changed(by, place, person, 'delete_passkey', 'A passkey of your account was deleted.')
    return true
  }

  async #verify(by: Requester, person: Account, code: string, clientId: string) {
    const result = await this.#services.secondFactors.verify(person, code)
    if (result === 'right') return person
    const refused = result === 'wrong' ? 'wrong_code' : result
    const { tenantId, workspaceId, id: accountId } = person
    const at = { tenantId: tenantId ?? undefined, workspaceId: workspaceId ?? undefined }
    this.#audit.signInRefused(by, { ...at, accountId, clientId }, refused)
    if (refused === 'too_many' && this.#warned.admit(accountId, 1)) await this.#warn(person)
    return refused
  }

  /** Whoever guesses codes knows the password already. */
  async #warn(person: Account): Promise<void> {
    const { userMails, users } = this.#services
    if (!isUser(person)) return userMails.codesGuessed(person.email)
    const workspace = await users.workspace(person.workspaceId)
    userMails.codesGuessed(person.email, workspace?.brand.name)
  }

  #changed(by: Requester, { brand }: SignInPlace, person: Account, verb: string, text: string): void {
    const { userMails } = this.#services
    reportSignInChange({ audit: this.#audit, userMails }, { by, person, brand }, verb, text)
  }
}
