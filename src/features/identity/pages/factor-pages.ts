/** Pages and forms for the second factor of users: the code at a sign-in, switching it on and off. They need no scripts. */

import type { TotpSetup } from '../factors/second-factors.ts'
import type { UserWorkspace } from '../users/users-store.ts'
import { errorText, escapeHtml, field, form, type Page, renderPage } from './pages.ts'
import { button, CONFIRM_PASSWORD, paragraph, plainButton, type Refusal, section } from './user-pages.ts'

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

/** Asks for a code after the password. @param action path that takes the form @param formTarget origin that it may redirect to */
export function codePage(
  { brand }: UserWorkspace,
  { ticket, action, formTarget = '' }: { ticket: string; action: string; formTarget?: string },
  refused?: Refusal,
): Page {
  const fields = [hidden('ticket', ticket), ANY_CODE_FIELD, button('code', 'Continue')]
  const text = paragraph('Enter the code that your authenticator app shows, or one of your recovery codes.')
  const target = `<form method="post" action="${escapeHtml(action)}">${fields.join('')}</form>`
  const body = `${text}${errorText(refused?.text ?? '')}${target}`
  return renderPage('Enter a code', body, { brand, status: refused?.status ?? 200, formTarget })
}

/** Shows a new secret, and asks for a code of it. */
export function totpSetupPage({ brand }: UserWorkspace, setup: TotpSetup, refused?: Refusal): Page {
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
export function recoveryCodesPage({ brand }: UserWorkspace, codes: readonly string[]): Page {
  const items = codes.map((code) => `<li><code>${code.slice(0, 5)}-${code.slice(5)}</code></li>`).join('')
  const text =
    'The second factor is on. Keep these recovery codes in a safe place. If you lose the app, each code signs you in once, with your password. The codes are not shown again.'
  const body = `<p role="status">${text}</p><ul>${items}</ul>${form(button('show', 'I have saved the codes'))}`
  return renderPage('Your recovery codes', body, { brand })
}

/** A section of the account page. @param codesLeft recovery codes; undefined if the second factor is off */
export function totpSection(codesLeft: number | undefined): string {
  if (codesLeft === undefined)
    return section(
      'Second factor',
      [CONFIRM_PASSWORD, button('totp_begin', 'Add an authenticator app')],
      paragraph(
        'The second factor is off. If you turn it on, sign-in needs your password and a code of an app on your phone.',
      ),
    )
  return section(
    'Second factor',
    [CONFIRM_PASSWORD, ANY_CODE_FIELD, button('totp_off', 'Turn off')],
    paragraph(`The second factor is on. Recovery codes left: ${codesLeft}.`),
  )
}
