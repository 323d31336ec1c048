/** Mails to users of workspaces: links to verify an address or to set a password, and notices. */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ACCOUNT_PAGE } from '../../../access/authentication/holder-session.ts'
import type { Log } from '../../../infra/log.ts'
import type { Mailer } from '../../../infra/mail/mail.ts'
import { retryTransient } from '../../../infra/retry.ts'
import { ISSUER_LIMITS } from '../limits.ts'

/** The path of the page that opens a link, with the token in the query, which is never logged. */
export const USER_LINK_PAGE = '/auth/user/link'

/** `to` an address, for the users of the application with this name. */
interface Recipient {
  readonly to: string
  readonly brandName: string
}

interface Text {
  readonly subject: string
  readonly text: string
}

const hours = (purpose: keyof typeof ISSUER_LIMITS.users.linkSeconds) => {
  const count = ISSUER_LIMITS.users.linkSeconds[purpose] / 3_600
  return count === 1 ? 'one hour' : `${count} hours`
}

const RETRY_PAUSE_MS = { min: 1_000, max: 30_000 }

/** The reply to the request is on its way before the work on its mail begins. */
const START_DELAY_MS = 200

/**
 * Sends in the background, so that the time of a reply does not tell if a mail was sent. A mail is lost if the process ends
 * before the server takes it; the person asks for another one. No mail contains text that a person without an account chose.
 */
export class UserMails {
  readonly #mailer: Mailer
  readonly #log: Log
  readonly #url: string
  #pending = 0

  /** @param url of the API, as browsers see it */
  constructor(mailer: Mailer, log: Log, url: string) {
    this.#mailer = mailer
    this.#log = log
    this.#url = url
  }

  /** False if neither an SMTP server nor a folder is configured. */
  get isConfigured(): boolean {
    return this.#mailer.isConfigured
  }

  /** Mails that the server has not taken yet. */
  get pending(): number {
    return this.#pending
  }

  linkTo(token: string): string {
    return `${this.#url}${USER_LINK_PAGE}?token=${token}`
  }

  signUp(recipient: Recipient, token: string): void {
    this.#send(recipient, {
      subject: `Confirm your e-mail address for ${recipient.brandName}`,
      text: `Someone signed up for ${recipient.brandName} with this e-mail address.

If it was you, confirm the address within ${hours('sign_up')}:

${this.linkTo(token)}

If it was not you, ignore this mail. No account is created then.`,
    })
  }

  /** To the user of an address with which someone has signed up again. */
  alreadySignedUp(recipient: Recipient): void {
    this.#send(recipient, {
      subject: `You already have an account at ${recipient.brandName}`,
      text: `Someone tried to use this e-mail address for an account at ${recipient.brandName}. The address has an account already.

If it was you, sign in with this address. If you have forgotten the password, choose "Forgot your password?" on the sign-in page.

If it was not you, ignore this mail. Nothing has changed.`,
    })
  }

  invitation(recipient: Recipient, token: string): void {
    this.#send(recipient, {
      subject: `Your invitation to ${recipient.brandName}`,
      text: `You are invited to ${recipient.brandName}.

Set a password within ${ISSUER_LIMITS.invitationDays} days:

${this.linkTo(token)}`,
    })
  }

  /** To the person of an account of the platform. @param url of the page that sets the password */
  accountLink(to: string, url: string): void {
    const { host } = new URL(this.#url)
    this.#send(
      { to, brandName: host },
      {
        subject: `Set the password of your account at ${host}`,
        text: `An admin has created or reset an account at ${host} for this e-mail address.

Set a password within ${ISSUER_LIMITS.invitationDays} days:

${url}

The link works once. By using it, you confirm that this address is yours, and you may then decide approvals that name it.`,
      },
    )
  }

  reset(recipient: Recipient, token: string): void {
    this.#send(recipient, {
      subject: `Set a new password for ${recipient.brandName}`,
      text: `Someone requested a new password for your account at ${recipient.brandName}.

If it was you, set it within ${hours('reset')}:

${this.linkTo(token)}

If it was not you, ignore this mail. Your password stays as it is.`,
    })
  }

  /** To a user without a password. @param provider its name */
  connectIdentity(recipient: Recipient, provider: string, token: string): void {
    this.#send(recipient, {
      subject: `Confirm that ${provider} may sign in to ${recipient.brandName}`,
      text: `Someone who has signed in at ${provider} with this e-mail address wants to sign in to your account at ${recipient.brandName}.

If it was you, confirm within ${hours('identity')} that ${provider} may sign you in:

${this.linkTo(token)}

If it was not you, ignore this mail. Your account stays as it is.`,
    })
  }

  changeEmail(recipient: Recipient, token: string): void {
    this.#send(recipient, {
      subject: `Confirm your new e-mail address for ${recipient.brandName}`,
      text: `Someone wants to use this e-mail address for an existing account at ${recipient.brandName}.

If it was you, confirm the address within ${hours('email')}:

${this.linkTo(token)}

If it was not you, ignore this mail. The account keeps its address.`,
    })
  }

  /** To the present address. */
  emailIsChanging(recipient: Recipient, newEmail: string): void {
    this.#send(recipient, {
      subject: `Your e-mail address for ${recipient.brandName} is about to change`,
      text: `A change of the e-mail address of your account at ${recipient.brandName} to ${newEmail} was requested on its account page. The address changes when the link in a mail to the new address is used.

If it was not you, set a new password now: choose "Forgot your password?" on the sign-in page. A new password makes that link invalid.`,
    })
  }

  /** To a user whose password was set by a link, or on the account page. */
  passwordChanged(recipient: Recipient): void {
    this.#send(recipient, {
      subject: `Your password for ${recipient.brandName} has changed`,
      text: `The password of your account at ${recipient.brandName} has changed. All devices are signed out.

If it was not you, choose "Forgot your password?" on the sign-in page.`,
    })
  }

  /** To a user whose account has another way to sign in, or one less. @param change a sentence */
  factorsChanged(recipient: Recipient, change: string): void {
    this.#send(recipient, {
      subject: `The sign-in of your account at ${recipient.brandName} has changed`,
      text: `${change}

If it was not you, set a new password now: choose "Forgot your password?" on the sign-in page. Then check your account.`,
    })
  }

  /** To the person of an account of the platform that has another way to sign in, or one less. @param change a sentence */
  accountFactorsChanged(to: string, change: string): void {
    const { host } = new URL(this.#url)
    this.#send(
      { to, brandName: host },
      {
        subject: `The sign-in of your account at ${host} has changed`,
        text: `${change}

If it was not you, change your password at ${this.#url}${ACCOUNT_PAGE} now, and tell an administrator with a higher role.`,
      },
    )
  }

  /** To a person whose codes somebody guesses. @param brandName of the workspace; absent for an account of the platform */
  codesGuessed(to: string, brandName?: string): void {
    const { host } = new URL(this.#url)
    const page = brandName === undefined ? `at ${this.#url}${ACCOUNT_PAGE}` : 'on the page of your account'
    this.#send(
      { to, brandName: brandName ?? host },
      {
        subject: `Wrong codes for your account at ${brandName ?? host}`,
        text: `Your password was entered at ${brandName ?? host}, and then too many wrong codes. Codes are refused for 15 minutes.

If it was not you, change your password ${page}: another person knows it. Your account was not opened.`,
      },
    )
  }

  #send({ to }: Recipient, { subject, text }: Text): void {
    const { hostname } = new URL(this.#url)
    const mail = { to, subject, text: `${text}\n`, messageId: `<${randomUUID()}@${hostname}>` }
    const attempt = async () => {
      const refusal = await this.#mailer.send(mail)
      if (refusal === undefined) return
      if (!refusal.isFinal) throw refusal.error
      this.#log.warn({ err: refusal.error }, 'user mail refused')
    }
    this.#pending += 1
    delay(START_DELAY_MS)
      .then(() => retryTransient(ISSUER_LIMITS.users.mailRetryMs, attempt, () => true, RETRY_PAUSE_MS))
      .catch((error: unknown) => this.#log.error({ err: error }, 'user mail failed'))
      .finally(() => {
        this.#pending -= 1
      })
  }
}
