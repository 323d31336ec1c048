/** Pages and forms for passkeys. Web Authentication needs a script; without it, the forms stay hidden. */

import { CORE_LIMITS } from '../../../core/limits.ts'
import type { SignInPlace } from '../factors/factor-owner.ts'
import type { Passkey } from '../factors/passkeys.ts'
import {
  button,
  dangerButton,
  escapeHtml,
  field,
  form,
  type Page,
  plainButton,
  renderPage,
  type SignInWays,
} from './pages.ts'
import { CONFIRM_PASSWORD, paragraph, section } from './user-pages.ts'

/** Asks the browser for a credential when the form is sent, and sends it with the form. */
const PASSKEY_SCRIPT = `{
  const form = document.querySelector('#passkey')
  const { ceremony, options } = form.dataset
  const api = window.PublicKeyCredential
  const parse = ceremony === 'create' ? 'parseCreationOptionsFromJSON' : 'parseRequestOptionsFromJSON'
  if (api?.[parse]) {
    form.hidden = false
    form.addEventListener('submit', async (event) => {
      event.preventDefault()
      try {
        const publicKey = api[parse](JSON.parse(options))
        const credential = await navigator.credentials[ceremony]({ publicKey })
        form.elements.credential.value = JSON.stringify(credential)
        form.submit()
      } catch {
        form.querySelector('[role=alert]').textContent = 'No passkey was used. Try again, or sign in with your password.'
      }
    })
  }
}`

/** Why a passkey was not accepted. */
export const PASSKEY_ERRORS = {
  wrong_passkey: { status: 401, text: 'This passkey cannot be used here. Try again, or use your password.' },
  too_many: { status: 429, text: 'Too many attempts. Try again in 15 minutes.' },
} as const

function passkeyForm(
  ceremony: 'create' | 'get',
  { options, action, fields }: { options: string; action: string; fields: readonly string[] },
): string {
  const data = `data-ceremony="${ceremony}" data-options="${escapeHtml(options)}"`
  const credential = '<input type="hidden" name="credential"><p class="fault" role="alert"></p>'
  return `<form id="passkey" method="post" action="${escapeHtml(action)}" ${data} hidden>${fields.join('')}${credential}</form>`
}

/** The button on a page where people sign in. @param options as JSON @param action path that takes the form */
export const passkeySignIn = (options: string, action: string): SignInWays => ({
  html: passkeyForm('get', {
    options,
    action,
    fields: [
      '<input type="hidden" name="action" value="passkey">',
      '<button class="plain">Sign in with a passkey</button>',
    ],
  }),
  script: PASSKEY_SCRIPT,
})

/** Creates a passkey. @param options as JSON @param action path that takes the form */
export function passkeySetupPage({ brand }: SignInPlace, options: string, action: string): Page {
  const name = field(
    'Name of the passkey',
    `name="name" maxlength="${CORE_LIMITS.nameCharsMax}" value="Passkey" required`,
  )
  const fields = [
    '<input type="hidden" name="action" value="passkey_add">',
    name,
    '<button>Create the passkey</button>',
  ]
  const text = paragraph(
    'Your device or security key creates the passkey, and asks for your fingerprint, face or PIN.',
  )
  const without = '<noscript><p>Passkeys need JavaScript, which is off in this browser.</p></noscript>'
  const body = `${text}${without}${passkeyForm('create', { options, action, fields })}${form(plainButton('cancel', 'Cancel'))}`
  return renderPage('Add a passkey', body, { brand, script: PASSKEY_SCRIPT })
}

const dateOf = (time: string | null) => time?.slice(0, 10) ?? 'never'

/** Sections of the account page. */
export function passkeySections(passkeys: readonly Passkey[]): string[] {
  const text = 'A passkey signs you in with fingerprint, face or PIN, without a password and code.'
  const add = section(
    'Passkeys',
    [CONFIRM_PASSWORD, button('passkey_begin', 'Add a passkey')],
    paragraph(text),
  )
  if (passkeys.length === 0) return [add]
  const choices = passkeys.map(
    ({ id, name, createdAt, lastUsedAt }) =>
      `<label><input type="radio" name="passkey" value="${id}" required> ${escapeHtml(name)}<small>added ${dateOf(createdAt)}, last used ${dateOf(lastUsedAt)}</small></label>`,
  )
  const list = `<fieldset><legend>Your passkeys</legend>${choices.join('')}</fieldset>`
  return [
    add,
    section('Delete a passkey', [
      list,
      CONFIRM_PASSWORD,
      dangerButton('passkey_delete', 'Delete the passkey'),
    ]),
  ]
}
