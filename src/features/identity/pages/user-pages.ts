/** The pages for users of a workspace, with its name, logo and colour. They work without scripts. */

import { CORE_LIMITS } from '../../../core/limits.ts'
import type { SignInPlace } from '../factors/factor-owner.ts'
import type { Prompt } from '../issuer/sign-in.ts'
import type { UserLink } from '../users/user-links.ts'
import type { UserWorkspace } from '../users/users-store.ts'
import {
  button,
  dangerButton,
  errorText,
  escapeHtml,
  field,
  form,
  formTargetOf,
  NEW_PASSWORD,
  OTHER_PASSWORD,
  type Page,
  passwordField,
  plainButton,
  renderPage,
  type SignInWays,
  tenantField,
  usernameField,
} from './pages.ts'

/** Why a form was not accepted. */
export interface Refusal {
  readonly status: number
  readonly text: string
  /** The e-mail address that was entered, which the form keeps. */
  readonly email?: string
  /** The tenant that was entered. */
  readonly tenant?: string
}

/** The quota of users of the workspace is used up. */
export const USER_LIMIT: Refusal = { status: 403, text: 'New accounts cannot be created at the moment.' }

/** A prompt at a client for users. */
export type UserPrompt = Prompt & { readonly workspace: UserWorkspace }

export const paragraph = (text: string) => `<p>${text}</p>`
const link = (href: string, label: string) => `<a href="${escapeHtml(href)}">${label}</a>`
export const CURRENT_PASSWORD = passwordField('Password', 'password', 'autocomplete="current-password"')
/** Of an action on the account page. */
const confirmationField = (label: string) =>
  passwordField(label, 'current', 'autocomplete="current-password"')
export const CONFIRM_PASSWORD = confirmationField('Your password')
export const section = (title: string, fields: readonly string[], text = '') =>
  `<section><h2>${title}</h2>${text}${form(fields.join(''))}</section>`
const nameField = (value = '') =>
  field(
    'Your name (optional)',
    `name="name" maxlength="${CORE_LIMITS.nameCharsMax}" autocomplete="name" value="${escapeHtml(value)}"`,
  )
const emailField = (label: string, name: string, value = '') =>
  field(
    label,
    `name="${name}" type="email" maxlength="320" autocomplete="email" value="${escapeHtml(value)}" required`,
  )

/** @param path of the interaction @param refused why the last attempt failed; the same whether or not there is such a user */
export function userSignInPage(prompt: UserPrompt, path: string, ways: SignInWays, refused?: Refusal): Page {
  const { workspace } = prompt
  const fields = [
    usernameField(refused?.email),
    CURRENT_PASSWORD,
    button('login', 'Sign in'),
    plainButton('deny', 'Cancel'),
  ]
  const providers = workspace.providers.map(
    ({ id, name }) =>
      `<a class="provider" href="${escapeHtml(`${path}/providers/${id}`)}">Continue with ${escapeHtml(name)}</a>`,
  )
  const links = [
    link(`${path}/forgot`, 'Forgot your password?'),
    ...(workspace.signUp === 'open' ? [link(`${path}/sign-up`, 'Create an account')] : []),
  ]
  const body = `${errorText(refused?.text ?? '')}${form(fields.join(''))}${providers.join('')}${ways.html}${links.map(paragraph).join('')}`
  const { brand } = workspace
  return renderPage('Sign in', body, {
    brand,
    status: refused?.status ?? 200,
    formTarget: formTargetOf(prompt),
    ...(ways.script !== undefined && { script: ways.script }),
  })
}

/** For an application on the user's machine, whose redirect URI other programs there could use as well (RFC 8252 §8.6). */
export function continuePage(prompt: UserPrompt): Page {
  const { workspace, email } = prompt
  const fields = [
    button('allow', 'Continue'),
    plainButton('leave', 'Use another account'),
    plainButton('deny', 'Cancel'),
  ]
  const text = `<p>You are signed in as <b>${escapeHtml(email)}</b>. Continue only if you have just started this sign-in yourself.</p>`
  const { brand } = workspace
  return renderPage('Continue?', `${text}${form(fields.join(''))}`, {
    brand,
    formTarget: formTargetOf(prompt),
  })
}

/** @param given what was entered before */
export function signUpPage(
  { workspace }: UserPrompt,
  path: string,
  refused?: Refusal & { readonly email: string; readonly name: string },
): Page {
  const fields = [
    emailField('E-mail address', 'email', refused?.email),
    nameField(refused?.name),
    ...NEW_PASSWORD,
    button('sign_up', 'Create account'),
  ]
  const back = paragraph(link(`${path}/sign-in`, 'I have an account'))
  const body = `${errorText(refused?.text ?? '')}${form(fields.join(''))}${back}`
  return renderPage('Create an account', body, { brand: workspace.brand, status: refused?.status ?? 200 })
}

export function forgotPage({ workspace }: UserPrompt, path: string, refused?: Refusal): Page {
  const fields = [emailField('E-mail address', 'email', refused?.email), button('forgot', 'Send me a link')]
  const text = paragraph('We send you a mail with a link to set a new password.')
  const back = paragraph(link(`${path}/sign-in`, 'Back to sign-in'))
  const body = `${text}${errorText(refused?.text ?? '')}${form(fields.join(''))}${back}`
  return renderPage('Forgot your password?', body, {
    brand: workspace.brand,
    status: refused?.status ?? 200,
  })
}

/** The same for every address. */
export function checkMailPage({ brand }: UserWorkspace, path: string, purpose: 'sign-up' | 'forgot'): Page {
  const text =
    purpose === 'sign-up'
      ? 'We have sent you a mail. Open its link within 24 hours to confirm your address; then sign in.'
      : 'If there is an account with this address, we have sent it a mail. Open its link within an hour.'
  const body = `<p role="status">${text}</p><p>No mail? Check the spam folder, or try again in a minute.</p>${paragraph(link(`${path}/sign-in`, 'Sign in'))}`
  return renderPage('Check your mail', body, { brand })
}

/** A page without a form. @param returnTo origin of the application to return to; empty if there is none */
export function userNoticePage(
  { brand }: Pick<SignInPlace, 'brand'>,
  title: string,
  text: string,
  { status = 200, returnTo = '' }: { readonly status?: number; readonly returnTo?: string } = {},
): Page {
  const back =
    returnTo === ''
      ? ''
      : paragraph(link(`${returnTo}/`, `Back to ${escapeHtml(brand?.name ?? 'the application')}`))
  return renderPage(title, `<p role="status">${escapeHtml(text)}</p>${back}`, { brand, status })
}

/** The page of a link: it changes nothing until its form is sent, since mail scanners open links. */
export function linkPage(
  { purpose, email, name }: UserLink,
  { brand }: UserWorkspace,
  refused?: Refusal,
): Page {
  const setsPassword = purpose === 'invitation' || purpose === 'reset'
  const address = `<b>${escapeHtml(email)}</b>`
  const text = {
    sign_up: `Confirm that ${address} is yours, with the password that you chose when you signed up. If you did not sign up, close this page.`,
    email: `Confirm that ${address} becomes the address of your account, with your password. If you did not ask for it, close this page.`,
    invitation: `You are invited with the address ${address}. Choose a password.`,
    identity: `Confirm that ${escapeHtml(name)} may sign in to the account of ${address}. If you have not just signed in at ${escapeHtml(name)}, close this page.`,
    reset: `Choose a new password for the account of ${address}. All devices will be signed out.`,
  }[purpose]
  const hidden = `<input type="hidden" name="email" value="${escapeHtml(email)}" autocomplete="username">`
  const fields = setsPassword
    ? [hidden, ...NEW_PASSWORD, button('set', 'Set the password')]
    : [hidden, ...(purpose === 'identity' ? [] : [CURRENT_PASSWORD]), button('confirm', 'Confirm')]
  const title = {
    sign_up: 'Confirm your e-mail address',
    email: 'Confirm your e-mail address',
    invitation: 'Set your password',
    identity: 'Confirm your sign-in',
    reset: 'Set your password',
  }[purpose]
  const body = `${paragraph(text)}${errorText(refused?.text ?? '')}${form(fields.join(''))}`
  return renderPage(title, body, { brand, status: refused?.status ?? 200 })
}

/** Asks for the password again, before the page of the own account. */
export function accountSignInPage(
  { brand, workspaceId }: SignInPlace,
  { html, script }: SignInWays,
  refused?: Refusal,
): Page {
  const fields = [
    workspaceId === undefined ? tenantField(refused?.tenant) : '',
    usernameField(refused?.email),
    CURRENT_PASSWORD,
    button('sign_in', 'Continue'),
  ]
  const text = paragraph('Enter your password to see and change your account.')
  const body = `${text}${errorText(refused?.text ?? '')}${form(fields.join(''))}${html}`
  return renderPage('Your account', body, { brand, status: refused?.status ?? 200, script })
}

/** The outcome of the last action on the account page; `refused` if it failed. */
export interface Message {
  readonly refused?: Refusal
  readonly done?: string
}

export const passwordSection = section('Change your password', [
  confirmationField('Current password'),
  ...OTHER_PASSWORD,
  button('password', 'Change the password'),
])

export const emailSection = section('Change your e-mail address', [
  emailField('New e-mail address', 'email'),
  CONFIRM_PASSWORD,
  button('email', 'Send a link to the new address'),
])

export const exportSection = section(
  'Export your data',
  [CONFIRM_PASSWORD, button('export', 'Download my data')],
  paragraph('A file with your profile, and with all that this application has stored for you.'),
)

const DATA_CHOICE = `<fieldset><legend>Your data in this application</legend>
<label><input type="radio" name="data" value="keep" checked> Keep it: only your account is deleted</label>
<label><input type="radio" name="data" value="anonymize"> Keep it without your name: your name is removed from documents and files</label>
<label><input type="radio" name="data" value="delete"> Delete it as well: documents and files</label></fieldset>`

export const deletionSection = section(
  'Delete your account',
  [
    DATA_CHOICE,
    confirmationField('Your password to confirm the deletion'),
    dangerButton('delete', 'Delete my account'),
  ],
  paragraph('A deleted account cannot be restored.'),
)

const CLOSING = [
  section(
    'Sign out everywhere',
    [button('sign_out', 'Sign out everywhere')],
    paragraph('This signs you out on all devices and in all browsers, this one included.'),
  ),
  section('Leave this page', [plainButton('leave', 'Sign out of this page')]),
]

/** The page of the own account. @param sections what the person may see and change, before those to sign out */
export function accountPage(
  { brand }: Pick<SignInPlace, 'brand'>,
  { email, name }: { readonly email: string; readonly name: string },
  sections: readonly string[],
  message: Message = {},
): Page {
  const { refused, done } = message
  const status = done === undefined ? '' : `<p role="status">${escapeHtml(done)}</p>`
  const who = name === '' ? escapeHtml(email) : `${escapeHtml(name)}, ${escapeHtml(email)}`
  const body = `${paragraph(`Signed in as <b>${who}</b>.`)}${status}${errorText(refused?.text ?? '')}${[...sections, ...CLOSING].join('')}`
  return renderPage('Your account', body, { brand, status: refused?.status ?? 200 })
}
