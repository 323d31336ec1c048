/** Forms for identities of users at identity providers, on the page of the own account. They need no scripts. */

import { escapeHtml } from '../pages.ts'
import type { KnownIdentity } from './identities-store.ts'
import type { StoredProvider } from './identity-provider-settings.ts'
import { button, PRESENT_PASSWORD, paragraph, section } from './user-pages.ts'

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
    const shown = identities.filter((identity) => identity.isConnected === isConnected)
    const labels = shown.map(
      (identity) =>
        `<label><input type="radio" name="identity" value="${identity.id}" required> ${escapeHtml(providerName(providers, identity))}<small>first used ${identity.createdAt.slice(0, 10)}</small></label>`,
    )
    return shown.length === 0 ? [] : [`<fieldset><legend>${title}</legend>${labels.join('')}</fieldset>`]
  }
  const connected = choices('Connected', true).map((list) =>
    section(
      'Sign-in at other places',
      [list, PRESENT_PASSWORD, button('identity_disconnect', 'Disconnect it')],
      paragraph('Who signs in there is signed in here. Your password stays.'),
    ),
  )
  const disconnected = choices('Disconnected', false).map((list) =>
    section('Disconnected places', [list, PRESENT_PASSWORD, button('identity_connect', 'Connect it again')]),
  )
  return [...connected, ...disconnected]
}
