/** The page where account holders review the clients that act for them, and take access back. It works without scripts. */

import type { GivenAccess, GivenAccessList } from '../issuer/grants.ts'
import {
  accessList,
  button,
  clientWarning,
  dangerButton,
  errorText,
  escapeHtml,
  form,
  type Page,
  page,
  passwordField,
  plainButton,
  renderPage,
  type SignInWays,
  tenantField,
  usernameField,
} from './pages.ts'
import { type Message, paragraph, type Refusal, section } from './user-pages.ts'

const TITLE = 'Your agents'

/** @param refused why the last attempt failed; the same whether or not there is such an account */
export function agentsSignInPage({ html, script }: SignInWays, refused?: Refusal): Page {
  const fields = [
    tenantField(refused?.tenant),
    usernameField(refused?.email),
    passwordField('Password', 'password', 'autocomplete="current-password"'),
    button('sign_in', 'Sign in'),
  ]
  const text = paragraph('Sign in to see which clients may act for you, and to remove their access.')
  const body = `${text}${errorText(refused?.text ?? '')}${form(fields.join(''))}${html}`
  return renderPage(TITLE, body, { status: refused?.status ?? 200, script })
}

/** @param email of the account @param message the outcome of the last action */
export function agentsPage(
  email: string,
  { grants, hasMore }: GivenAccessList,
  { refused, done }: Message = {},
): Page {
  const status = done === undefined ? '' : `<p role="status">${escapeHtml(done)}</p>`
  const text =
    grants.length === 0
      ? paragraph(`No client may act for you, ${escapeHtml(email)}.`)
      : paragraph(
          `These clients may act for you, ${escapeHtml(email)}, with the access that you have allowed.`,
        )
  const more = hasMore
    ? paragraph(`Only the newest ${grants.length} are shown. “Remove all” removes the others as well.`)
    : ''
  const all = grants.length === 0 ? '' : form(dangerButton('remove_all', 'Remove all'))
  const leave = form(plainButton('leave', 'Sign out of this page'))
  const body = `${errorText(refused?.text ?? '')}${status}${text}${more}${grants.map(grantSection).join('')}${all}${leave}`
  return page(TITLE, body, refused?.status ?? 200)
}

function grantSection(grant: GivenAccess): string {
  const { id, clientName, destinations, resource, resourceName, access } = grant
  const name = resourceName === '' ? '' : `<b>${escapeHtml(resourceName)}</b><br>`
  const facts = {
    Server: `${name}<code>${escapeHtml(resource)}</code>`,
    'Redirects to': destinations.map((name) => `<code>${escapeHtml(name)}</code>`).join(', '),
    'Allowed at': timeText(grant.givenAt),
    Expires: `by ${timeText(grant.endsAt)}`,
    'Last renewed': grant.renewedAt === null ? 'not yet' : timeText(grant.renewedAt),
  }
  const list = Object.entries(facts).map(([term, value]) => `<dt>${term}</dt><dd>${value}</dd>`)
  const text = `${clientWarning(grant)}<dl>${list.join('')}</dl><p>It may:</p>${accessList(access)}`
  const fields = [
    `<input type="hidden" name="grant" value="${escapeHtml(id)}">`,
    dangerButton('remove', 'Remove access'),
  ]
  return section(escapeHtml(clientName), fields, text)
}

/** @param time RFC 3339, UTC */
const timeText = (time: string) =>
  `<time datetime="${time}">${time.slice(0, 16).replace('T', ' ')} UTC</time>`
