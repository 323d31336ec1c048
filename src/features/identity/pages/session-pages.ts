/** Sections about sessions and consents, on the page of the own account. They need no scripts. */

import {
  ACCOUNT_PAGE,
  AGENTS_PAGE,
  APPROVAL_SESSION,
  USER_ACCOUNT_PAGE,
} from '../../../access/authentication/holder-session.ts'
import type { GivenAccessList } from '../issuer/grants.ts'
import type { OpenSession } from '../sessions/sessions.ts'
import { dangerButton, escapeHtml } from './pages.ts'
import { paragraph, section } from './user-pages.ts'

const BROWSERS = [
  ['Edge', /\bEdg\//],
  ['Opera', /\bOPR\//],
  ['Firefox', /\bFirefox\//],
  ['Chrome', /\bChrome\//],
  ['Safari', /\bSafari\//],
] as const

const SYSTEMS = [
  ['iPhone', /\biPhone\b/],
  ['iPad', /\biPad\b/],
  ['Android', /\bAndroid\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMacintosh\b/],
  ['Linux', /\bLinux\b/],
] as const

const nameIn = (agent: string, names: readonly (readonly [string, RegExp])[]) =>
  names.find(([, pattern]) => pattern.test(agent))?.[0]

/** Of what a browser says of itself. */
const NAME_CHARS = 60

/** `Firefox on Linux`; what the browser says of itself if that is not known. @param agent `User-Agent` */
function deviceName(agent: string): string {
  const name = [nameIn(agent, BROWSERS), nameIn(agent, SYSTEMS)].filter(Boolean).join(' on ')
  if (name !== '') return name
  return agent.length > NAME_CHARS ? `${agent.slice(0, NAME_CHARS)}…` : agent || 'Unknown device'
}

/** @param time RFC 3339, UTC */
const timeText = (time: string) =>
  `<time datetime="${time}">${time.slice(0, 16).replace('T', ' ')} UTC</time>`

const PAGES: Readonly<Record<string, string>> = {
  [ACCOUNT_PAGE]: 'page of your account',
  [USER_ACCOUNT_PAGE]: 'page of your account',
  [AGENTS_PAGE]: 'page of your agents',
  [APPROVAL_SESSION.cookie.path]: 'page of an approval',
}

/** @param current id of the session in which the page is shown */
export function sessionSection(sessions: readonly OpenSession[], current: string | undefined): string[] {
  if (sessions.length === 0) return []
  const choices = sessions.map(({ id, page, device, address, created_at, last_used_at }) => {
    const where = page === null ? 'signed in to apps' : (PAGES[page] ?? `page ${escapeHtml(page)}`)
    const own = id === current ? ', this page' : ''
    const facts = `${where}${own}<br>from ${escapeHtml(address)}<br>since ${timeText(created_at)}, last used ${timeText(last_used_at)}`
    return `<label><input type="radio" name="session" value="${id}" required> ${escapeHtml(deviceName(device))}<small>${facts}</small></label>`
  })
  const list = `<fieldset><legend>Devices and pages</legend>${choices.join('')}</fieldset>`
  return [section('Sessions', [list, dangerButton('session_end', 'End the session')])]
}

/** The clients that may act for the person. */
export function consentSection({ grants, hasMore }: GivenAccessList): string[] {
  if (grants.length === 0) return []
  const choices = grants.map(({ id, clientName, registered, resource, resourceName, givenAt, renewedAt }) => {
    const used = renewedAt === null ? '' : `, last used ${timeText(renewedAt)}`
    const facts = `${registered ? 'its name is not verified<br>' : ''}${escapeHtml(resourceName || resource)}<br>since ${timeText(givenAt)}${used}`
    return `<label><input type="radio" name="grant" value="${escapeHtml(id)}" required> ${escapeHtml(clientName)}<small>${facts}</small></label>`
  })
  const more = hasMore ? paragraph(`Only the newest ${grants.length} are shown.`) : ''
  const list = `<fieldset><legend>Apps that may act for you</legend>${choices.join('')}</fieldset>`
  return [section('Access that you have given', [list, dangerButton('remove', 'Remove access')], more)]
}
