/** Pages and forms for identities of users at identity providers: at a sign-in, and on the page of the own account. They need no scripts. */

import type { KnownIdentity } from '../users/identities-store.ts'
import type { StoredProvider } from '../users/identity-provider-settings.ts'
import type { UserWorkspace } from '../users/users-store.ts'
import { hidden } from './factor-pages.ts'
import { button, dangerButton, errorText, escapeHtml, type Page, renderPage } from './pages.ts'
import { CONFIRM_PASSWORD, CURRENT_PASSWORD, paragraph, type Refusal, section } from './user-pages.ts'

/** The name of the provider; the host of its issuer if the workspace does not offer it any more. */
export const providerName = (
  providers: readonly StoredProvider[],
  { issuer }: Pick<KnownIdentity, 'issuer'>,
): string => providers.find((provider) => provider.issuer === issuer)?.name ?? new URL(issuer).host

/** Sections of the account page. All actions need the password, so no identity is the only way to sign in. */
export function identitySections(
  identities: readonly KnownIdentity[],
  providers: readonly StoredProvider[],
): string[] {
  const choices = (title: string, isConnected: boolean) => {
    const listed = identities.filter((identity) => identity.isConnected === isConnected)
    const labels = listed.map(
      (identity) =>
        `<label><input type="radio" name="identity" value="${identity.id}" required> ${escapeHtml(providerName(providers, identity))}<small>first used ${identity.createdAt.slice(0, 10)}</small></label>`,
    )
    return listed.length === 0 ? [] : [`<fieldset><legend>${title}</legend>${labels.join('')}</fieldset>`]
  }
  const connected = choices('Connected', true).map((list) =>
    section(
      'Sign-in with other providers',
      [list, CONFIRM_PASSWORD, dangerButton('identity_disconnect', 'Disconnect')],
      paragraph('A sign-in at one of these providers signs you in here. Your password stays valid.'),
    ),
  )
  const disconnected = choices('Disconnected', false).map((list) =>
    section('Disconnected providers', [list, CONFIRM_PASSWORD, button('identity_connect', 'Connect again')]),
  )
  return [...connected, ...disconnected]
}

/** The form by which the user of an address connects an identity with the same address. */
interface IdentityForm {
  readonly ticket: string
  /** Path that takes the form. */
  readonly action: string
  /** Origin that it may redirect to. */
  readonly formTarget: string
  readonly email: string
  readonly provider: string
}

/** Asks for the password once, since the person with the address at the provider need not be the user. */
export function connectIdentityPage(
  { brand }: UserWorkspace,
  { ticket, action, formTarget, email, provider }: IdentityForm,
  refused?: Refusal,
): Page {
  const text = paragraph(
    `An account for <b>${escapeHtml(email)}</b> already exists. Enter its password once, so that ${escapeHtml(provider)} may sign you in from now on.`,
  )
  const fields = [hidden('ticket', ticket), CURRENT_PASSWORD, button('identity', 'Continue')]
  const target = `<form method="post" action="${escapeHtml(action)}">${fields.join('')}</form>`
  const body = `${text}${errorText(refused?.text ?? '')}${target}`
  return renderPage('Enter your password', body, { brand, status: refused?.status ?? 200, formTarget })
}

/** For an account without a password. @param path of the interaction */
export function confirmByMailPage({ brand }: UserWorkspace, provider: string, path: string): Page {
  const text = `An account with your e-mail address already exists. We have sent a mail to this address. Open its link within an hour to confirm that ${escapeHtml(provider)} may sign you in. Then sign in again.`
  const back = paragraph(`<a href="${escapeHtml(`${path}/sign-in`)}">Sign in</a>`)
  return renderPage('Check your mail', `<p role="status">${text}</p>${back}`, { brand })
}
