/** Pages and forms for the second factor: the code at a sign-in, switching it on and off. They need no scripts. */

import { ACCOUNT_PAGE } from '../../../access/authentication/holder-session.ts'
import type { SignInPlace } from '../factors/factor-owner.ts'
import type { SecondFactor, TotpSetup } from '../factors/second-factors.ts'
import {
  button,
  dangerButton,
  errorText,
  escapeHtml,
  field,
  form,
  type Page,
  plainButton,
  renderPage,
  type SignInWays,
} from './pages.ts'
import { CONFIRM_PASSWORD, paragraph, type Refusal, section } from './user-pages.ts'

/** Why a code was not accepted. */
export const CODE_ERRORS = {
  expired: { status: 401, text: 'The sign-in took too long. Sign in again.' },
  changed: {
    status: 401,
    text: 'Your account or this connection has changed since you started. Sign in again.',
  },
  wrong_code: { status: 401, text: 'The code is not correct, or was already used.' },
  too_many: { status: 429, text: 'Too many attempts. Try again in 15 minutes.' },
} as const

const CODE_FIELD = field(
  'Code',
  'name="code" inputmode="numeric" autocomplete="one-time-code" maxlength="40" required',
)
/** Recovery codes have letters. */
const ANY_CODE_FIELD = field('Code', 'name="code" autocomplete="one-time-code" maxlength="40" required')

export const hidden = (name: string, value: string) =>
  `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`

/** The form of the second step of a sign-in. */
export interface CodeForm {
  readonly ticket: string
  /** Path that takes the form. */
  readonly action: string
  /** Origin that it may redirect to. */
  readonly formTarget?: string
  /** A passkey, if the person has one that may take the place of the code. */
  readonly ways?: SignInWays
}

/** Asks for a code after the password. */
export function codePage(
  { brand }: SignInPlace,
  { ticket, action, formTarget = '', ways }: CodeForm,
  refused?: Refusal,
): Page {
  const fields = [hidden('ticket', ticket), ANY_CODE_FIELD, button('code', 'Continue')]
  const other = ways === undefined ? '' : 'Use your passkey. Or enter'
  const text = paragraph(
    `${other || 'Enter'} the code that your authenticator app shows, or one of your recovery codes.`,
  )
  const target = `<form method="post" action="${escapeHtml(action)}">${fields.join('')}</form>`
  const body = `${text}${errorText(refused?.text ?? '')}${ways?.html ?? ''}${target}`
  const settings = { brand, status: refused?.status ?? 200, formTarget, script: ways?.script }
  return renderPage('Enter a code', body, settings)
}

/** For an account that may do nothing without a second factor, and has none yet. */
export const FACTOR_NEEDED: Page = renderPage(
  'Your account needs a second factor',
  `<p role="status">Add an authenticator app or a passkey on <a href="${ACCOUNT_PAGE}">the page of your account</a>. Then sign in again.</p>`,
  { status: 403 },
)

/** Shows a new secret, and asks for a code of it. */
export function totpSetupPage({ brand }: SignInPlace, setup: TotpSetup, refused?: Refusal): Page {
  const { secret, link, ticket } = setup
  const groups = secret.match(/.{1,4}/g)?.join(' ') ?? ''
  const text = [
    `Open <a href="${escapeHtml(link)}">this link</a> with your authenticator app, or add an account there by hand with this key:`,
    `<code>${groups}</code>`,
    'The codes are time-based, with 6 digits, 30 seconds and SHA-1. Then enter the code that the app shows.',
  ]
  const fields = [
    hidden('ticket', ticket),
    CODE_FIELD,
    button('totp_on', 'Turn on'),
    plainButton('cancel', 'Cancel'),
  ]
  const body = `${text.map(paragraph).join('')}${errorText(refused?.text ?? '')}${form(fields.join(''))}`
  return renderPage('Add an authenticator app', body, { brand, status: refused?.status ?? 200 })
}

/** Shows the recovery codes, once. */
export function recoveryCodesPage({ brand }: SignInPlace, codes: readonly string[]): Page {
  const items = codes.map((code) => `<li><code>${code.slice(0, 5)}-${code.slice(5)}</code></li>`).join('')
  const text =
    'The second factor is on. Keep these recovery codes in a safe place. If you lose the app, each code signs you in once, with your password. The codes are not shown again.'
  const body = `<p role="status">${text}</p><ul>${items}</ul>${form(button('show', 'I have saved the codes'))}`
  return renderPage('Your recovery codes', body, { brand })
}

/** Sections of the account page. @param factor undefined if the second factor is off */
export function totpSections(factor: SecondFactor | undefined): string[] {
  if (factor === undefined) return [enableSection('The second factor is off. ')]
  const left = paragraph(`Recovery codes left: ${factor.codesLeft}.`)
  const renew = section(
    'Recovery codes',
    [CONFIRM_PASSWORD, button('recovery_renew', 'Make new codes')],
    left,
  )
  return [factor.hasTotp ? DISABLE : enableSection(''), renew]
}

const enableSection = (state: string) =>
  section(
    'Second factor',
    [CONFIRM_PASSWORD, button('totp_begin', 'Add an authenticator app')],
    paragraph(`${state}If you add an app on your phone, sign-in needs your password and a code of this app.`),
  )

const DISABLE = section(
  'Second factor',
  [CONFIRM_PASSWORD, ANY_CODE_FIELD, dangerButton('totp_off', 'Turn off')],
  paragraph(
    'The second factor is on. To turn it off, enter a code of your app, or one of your recovery codes.',
  ),
)
