/** Signs up users of a workspace, verifies their addresses, resets passwords, and changes or deletes their accounts. */

import { hash } from 'node:crypto'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { networkOf } from '../../../access/rate-limit/memory-buckets.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { hiddenIn } from '../../../core/text/visible-text.ts'
import type { Payer } from '../accounts/password-slots.ts'
import { hashPassword, verifyPassword } from '../accounts/passwords.ts'
import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import type { IssuerServices } from '../issuer/issuer-services.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { USER_EMAIL_PATTERN } from './auth-settings.ts'
import { reportSignInChange } from './sign-in-changes.ts'
import type { UserLink } from './user-links.ts'
import type { UserAccount, UserWorkspace } from './users-store.ts'

/** A person at a page, perhaps one without an account. */
interface Visitor {
  readonly by: Requester
  /** The client's network, as `networkOf` returns it. */
  readonly network: string
}

/** A form of a person who comes from an application with this origin. */
interface AddressForm extends Visitor {
  readonly email: string
  readonly returnTo: string
}

/** `rate_limited`: too many mails to this client or workspace. `user_limit`: the quota of users is used up. */
export type MailOutcome = 'sent' | 'rate_limited' | 'user_limit' | 'sign_up_disabled'

export type LinkOutcome =
  | { readonly done: UserLink; readonly workspace: UserWorkspace }
  | { readonly failed: 'invalid' | 'user_limit' | 'wrong' | 'too_many' }

type Services = Pick<IssuerServices, 'config' | 'users' | 'userLinks' | 'userMails'>

const EMAIL = new RegExp(USER_EMAIL_PATTERN)

/** True for an address that users may have. */
export const isUserEmail = (text: string): boolean => text.length <= 320 && EMAIL.test(text)

/** True for a name that users may have; they may have none. */
export const isUserName = (text: string): boolean =>
  text.length <= CORE_LIMITS.nameCharsMax && hiddenIn(text) === undefined

const payerOf = ({ address }: Requester, { workspaceId: realm }: UserWorkspace, link: string): Payer => ({
  network: networkOf(address),
  realm,
  link,
})

export class UserService {
  readonly #services: Services
  readonly #audit: IssuerAudit
  readonly #byOrigin = new AttemptThrottle(ISSUER_LIMITS.users.mailsWindowMs)
  readonly #byRecipient = new AttemptThrottle(ISSUER_LIMITS.users.mailIntervalMs)
  readonly #byLink = new AttemptThrottle()

  constructor(services: Services, audit: IssuerAudit) {
    this.#services = services
    this.#audit = audit
  }

  /**
   * Mails a link that creates a user with this password; to a user who exists, a notice. The reply and its time are the same.
   * @param form valid ({@link isUserEmail}, {@link isUserName}), its password of a valid length
   * @throws Problem `rate_limited`
   */
  async signUp(
    workspace: UserWorkspace,
    form: AddressForm & { readonly name: string; readonly password: string },
  ): Promise<MailOutcome> {
    if (workspace.signUp !== 'open') return 'sign_up_disabled'
    if (await this.#services.users.isFull(workspace)) return 'user_limit'
    const admitted = this.#admit('sign_up', workspace, form)
    if (admitted !== 'send') return admitted
    const { name, returnTo } = form
    const email = form.email.toLowerCase()
    const passwordHash = await hashPassword(form.password, {
      network: form.network,
      realm: workspace.workspaceId,
    })
    const { token, isKnown } = await this.#services.userLinks.signUp(workspace, {
      email,
      name,
      passwordHash,
      returnTo,
    })
    const recipient = { to: email, brandName: workspace.brand.name }
    if (isKnown) this.#services.userMails.alreadySignedUp(recipient)
    else this.#services.userMails.signUp(recipient, token)
    this.#audit.userMailRequested(form.by, workspace, 'user.sign_up')
    return 'sent'
  }

  /** Mails a link that sets another password, if a user has the address. The reply and its time are the same if none has. */
  async forgot(workspace: UserWorkspace, form: AddressForm): Promise<MailOutcome> {
    const admitted = this.#admit('reset', workspace, form)
    if (admitted !== 'send') return admitted
    const email = form.email.toLowerCase()
    const { token, userId } = await this.#services.userLinks.reset(workspace, email, form.returnTo)
    if (userId !== undefined)
      this.#services.userMails.reset({ to: email, brandName: workspace.brand.name }, token)
    this.#audit.userMailRequested(form.by, workspace, 'user.forgot_password')
    return 'sent'
  }

  /** The link of a token, with its workspace. */
  async open(token: string): Promise<{ link: UserLink; workspace: UserWorkspace } | undefined> {
    const link = await this.#services.userLinks.read(token)
    const workspace = link && (await this.#services.users.workspace(link.workspaceId))
    return link !== undefined && workspace !== undefined ? { link, workspace } : undefined
  }

  /**
   * Verifies the address of a sign-up, or of a user who changes it. The link alone does not suffice: else the owner of an
   * address could be led to confirm an account whose password an attacker has chosen (account pre-hijacking).
   * @param password of the sign-up, or of the user
   * @throws Problem `rate_limited`
   */
  async confirm(by: Requester, token: string, password: string): Promise<LinkOutcome> {
    const opened = await this.open(token)
    if (opened === undefined) return { failed: 'invalid' }
    const { link, workspace } = opened
    const isSignUp = link.purpose === 'sign_up'
    if (isSignUp ? workspace.signUp !== 'open' : link.purpose !== 'email') return { failed: 'invalid' }
    const attempt = hash('sha256', token)
    if (!this.#byLink.admit(attempt, ACCESS_LIMITS.attemptsMax.accountFromAddress))
      return { failed: 'too_many' }
    const check = verifyPassword(password, link.passwordHash ?? undefined, payerOf(by, workspace, token))
    if (!(await this.#byLink.uncountIfFailed([attempt], check))) return { failed: 'wrong' }
    const { userLinks } = this.#services
    const accept = () => (isSignUp ? userLinks.acceptSignUp(token) : userLinks.confirmEmail(token))
    const user = await accept().catch((error: unknown) => {
      if (error instanceof Problem && error.code === 'quota_exceeded') return 'user_limit' as const
      throw error
    })
    if (user === 'user_limit') return { failed: 'user_limit' }
    if (user === undefined) return { failed: 'invalid' }
    this.#audit.personChanged(by, user, isSignUp ? 'verify' : 'change_email')
    return { done: link, workspace }
  }

  /** Sets a password by an invitation or a reset. @throws Problem `rate_limited` */
  async setPassword(by: Requester, token: string, password: string): Promise<LinkOutcome> {
    const opened = await this.open(token)
    if (opened === undefined) return { failed: 'invalid' }
    const { link, workspace } = opened
    const { purpose } = link
    if (purpose !== 'invitation' && purpose !== 'reset') return { failed: 'invalid' }
    const passwordHash = await hashPassword(password, payerOf(by, workspace, token))
    const user = await this.#services.userLinks.setPassword(token, purpose, passwordHash)
    if (user === undefined) return { failed: 'invalid' }
    this.#audit.personChanged(by, user, purpose === 'reset' ? 'password_set' : 'accept')
    if (purpose === 'reset')
      this.#services.userMails.passwordChanged({ to: user.email, brandName: workspace.brand.name })
    return { done: link, workspace }
  }

  /** Connects the identity of a mailed link to a user without a password. */
  async connectIdentity(by: Requester, token: string): Promise<LinkOutcome> {
    const opened = await this.open(token)
    const user = opened && (await this.#services.userLinks.connectIdentity(token))
    if (opened === undefined || user === undefined) return { failed: 'invalid' }
    const { link, workspace } = opened
    const { userMails } = this.#services
    const text = `${link.name} can now sign in to your account.`
    const change = { by, person: user, brand: workspace.brand }
    reportSignInChange({ audit: this.#audit, userMails }, change, 'connect_identity', text)
    return { done: link, workspace }
  }

  /** Mails a link to the new address, and a notice to the present one. */
  async changeEmail(workspace: UserWorkspace, user: UserAccount, form: AddressForm): Promise<MailOutcome> {
    const admitted = this.#admit('email', workspace, form)
    if (admitted !== 'send') return admitted
    const { brand } = workspace
    const email = form.email.toLowerCase()
    const { token, isTaken } = await this.#services.userLinks.changeEmail(user, email)
    const recipient = { to: email, brandName: brand.name }
    if (isTaken) this.#services.userMails.alreadySignedUp(recipient)
    else this.#services.userMails.changeEmail(recipient, token)
    this.#services.userMails.emailIsChanging({ to: user.email, brandName: brand.name }, email)
    this.#audit.personChanged(form.by, user, 'request_email_change')
    return 'sent'
  }

  /** @throws Problem `rate_limited` */
  async changePassword(by: Requester, workspace: UserWorkspace, user: UserAccount, password: string) {
    if (!(await this.#services.users.changePassword(user, password, networkOf(by.address)))) return false
    this.#audit.personChanged(by, user, 'password_set')
    this.#services.userMails.passwordChanged({ to: user.email, brandName: workspace.brand.name })
    return true
  }

  async signOut(by: Requester, user: UserAccount): Promise<void> {
    if (await this.#services.users.signOut(user)) this.#audit.personChanged(by, user, 'sign_out')
  }

  async delete(by: Requester, user: UserAccount): Promise<boolean> {
    if (!(await this.#services.users.delete(user))) return false
    this.#audit.personChanged(by, user, 'delete')
    return true
  }

  /**
   * Limits mails. A repetition for the same address looks as if it was sent; the limits for clients and workspaces come first
   * and do not depend on the address, so neither reply tells if it has a user.
   */
  #admit(purpose: string, { workspaceId }: UserWorkspace, { email, network }: AddressForm) {
    const { TENON_USER_MAILS_PER_ADDRESS: perAddress, TENON_USER_MAILS_PER_WORKSPACE: perWorkspace } =
      this.#services.config
    if (!this.#byOrigin.admit(`network ${network}`, perAddress)) return 'rate_limited' as const
    if (!this.#byOrigin.admit(`workspace ${workspaceId}`, perWorkspace)) return 'rate_limited' as const
    const recipient = hash('sha256', `${purpose} ${workspaceId} ${email.toLowerCase()}`)
    return this.#byRecipient.admit(recipient, 1) ? ('send' as const) : ('sent' as const)
  }
}
