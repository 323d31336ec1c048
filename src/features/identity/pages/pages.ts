/** The issuer's pages: plain HTML, never in a frame. The only external resource is the logo of a workspace. */

import { createHash } from 'node:crypto'
import { documentHostOf } from '../../../access/authentication/client-ids.ts'
import { ACCOUNT_PAGE } from '../../../access/authentication/holder-session.ts'
import type { Problem } from '../../../core/problem.ts'
import { PROBLEMS } from '../../../core/problem-catalogue.ts'
import { mixesScripts } from '../../../core/text/visible-text.ts'
import { isUmbrella } from '../../../core/tool-access.ts'
import { type Effect, effectInWords, effectOf, strengthOf } from '../../../core/tool-annotations.ts'
import { destinationOf, staysOnDevice, webOriginOf } from '../clients/redirect-uris.ts'
import type { ScopeAccess } from '../issuer/grants.ts'
import type { Prompt } from '../issuer/sign-in.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import type { Brand } from '../users/users-store.ts'

export interface Page {
  readonly status: number
  readonly html: string
  readonly headers: Readonly<Record<string, string>>
}

/** Of buttons and links, if a workspace has set none. */
const COLOR = '#1f4e8c'

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:min(12vh,5rem) auto 2rem;padding:0 1rem;color:#1a1a1a;overflow-wrap:anywhere}
h1{font-size:1.3rem}label{display:block;margin:.8rem 0}input{display:block;width:100%;box-sizing:border-box;font:inherit;padding:.5rem}
textarea,select{display:block;width:100%;box-sizing:border-box;font:inherit;padding:.5rem}input[type=checkbox],input[type=radio]{display:inline;width:1rem;margin:0 .22rem 0 0}label:has(>[type=checkbox],>[type=radio]){padding-left:1.5rem;text-indent:-1.5rem}label>small{text-indent:0}fieldset{border:0;padding:0;margin:0}legend{padding:0}time{white-space:nowrap}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;font:inherit}dt{font-weight:600;margin-top:.5rem}dd{margin:0;overflow-wrap:anywhere}section{border-top:1px solid #ccc;margin-top:1.5rem}
button{font:inherit;padding:.5rem 1.2rem;margin:.8rem .6rem 0 0;background:${COLOR};color:#fff;border:1px solid ${COLOR};border-radius:.3rem;cursor:pointer}
button.plain{background:#fff;color:#1a1a1a;border-color:#767676}button.reject{background:#fff;color:#a40000;border-color:#a40000}
h2{font-size:1.1rem;overflow-wrap:anywhere}.fault{color:#a40000}code{word-break:break-all}
.access{padding:0;list-style:none}.access li{margin:0 0 .8rem;padding:.6rem .8rem;border:1px solid #ccc;border-radius:.4rem}.access p{margin:0 0 .4rem}.does,small{display:block;color:#555}`

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
export const escapeHtml = (text: string) =>
  text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '')

interface PageSettings {
  readonly status?: number
  /** Another origin that a form may redirect to. */
  readonly formTarget?: string
  /** Of the workspace whose page it is. */
  readonly brand?: Brand | undefined
  /** Of the pages for passkeys; the others have none. */
  readonly script?: string | undefined
}

/** @param formTarget another origin that a form may redirect to */
export const page = (title: string, body: string, status = 200, formTarget = ''): Page =>
  renderPage(title, body, { status, formTarget })

export function renderPage(title: string, body: string, settings: PageSettings): Page {
  const { status = 200, formTarget = '', brand, script } = settings
  const style = `${STYLE}${brand === undefined ? '' : brandStyle(brand)}`
  const policy = [
    "default-src 'none'",
    `style-src ${sourceOf(style)}`,
    ...(script === undefined ? [] : [`script-src ${sourceOf(script)}`]),
    ...imageSources(brand),
    `form-action 'self' ${formTarget}`.trim(),
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ]
  return {
    status,
    html: `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(titleOf(title, brand))}</title><style>${style}</style><main>${brandHeader(brand)}<h1>${escapeHtml(title)}</h1>${body}</main>${script === undefined ? '' : `<script>${script}</script>`}</html>`,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy.join('; '),
      'x-frame-options': 'DENY',
      // With `no-referrer`, browsers would send their forms with the origin `null`, as those of other sites may have.
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
    },
  }
}

/** Allows this text alone. */
const sourceOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const titleOf = (title: string, brand: Brand | undefined) =>
  brand === undefined ? title : `${title} – ${brand.name}`

/** The colour was checked when it was set (users/auth-settings.ts). */
const brandStyle = ({ color = COLOR }: Brand) => `
.brand{font-weight:600;margin:0 0 1.5rem}.brand img{display:block;max-width:12rem;max-height:4rem;margin-bottom:.5rem}
main button:not([class]){background:${color};border-color:${color}}main a{color:${color}}
main a.provider{display:block;margin:.5rem 0;padding:.5rem;text-align:center;text-decoration:none;background:#fff;color:#1a1a1a;border:1px solid #767676;border-radius:.3rem}`

/** Allows the logo and no other image. */
function imageSources(brand: Brand | undefined): string[] {
  if (brand?.logoUrl === undefined) return []
  return [`img-src ${brand.logoUrl.startsWith('data:') ? 'data:' : brand.logoUrl}`]
}

function brandHeader(brand: Brand | undefined): string {
  if (brand === undefined) return ''
  const logo = brand.logoUrl === undefined ? '' : `<img src="${escapeHtml(brand.logoUrl)}" alt="">`
  return `<p class="brand">${logo}${escapeHtml(brand.name)}</p>`
}

export const form = (fields: string) => `<form method="post" autocomplete="on">${fields}</form>`
export const field = (label: string, attributes: string) => `<label>${label} <input ${attributes}></label>`
export const button = (action: string, label: string) =>
  `<button name="action" value="${action}">${label}</button>`
/** A way out, for which no field has to be filled in. */
export const plainButton = (action: string, label: string) =>
  `<button class="plain" name="action" value="${action}" formnovalidate>${label}</button>`
/** Takes something away for good. */
export const dangerButton = (action: string, label: string) =>
  `<button class="reject" name="action" value="${action}">${label}</button>`
export const errorText = (text: string) =>
  text === '' ? '' : `<p class="fault" role="alert">${escapeHtml(text)}</p>`

/** @param value what was entered before */
export const tenantField = (value = '') =>
  field(
    'Tenant (empty for operators)',
    `name="tenant" maxlength="40" autocapitalize="none" value="${escapeHtml(value)}"`,
  )
/** @param value what was entered before */
export const usernameField = (value = '') =>
  field(
    'E-mail address',
    `name="email" type="email" maxlength="320" autocomplete="username" value="${escapeHtml(value)}" required`,
  )

/** The fields of a refused form that the page fills in again; never the password. */
export interface Entered {
  readonly tenant?: string
  readonly email?: string
}

export const passwordField = (label: string, name: string, attributes: string) =>
  field(
    label,
    `name="${name}" type="password" maxlength="${ISSUER_LIMITS.passwordCharsMax}" ${attributes} required`,
  )

/** Why a sign-in failed; the same whether or not the account exists. */
export const LOGIN_ERRORS = {
  wrong: { status: 401, text: 'The e-mail address or the password is not correct.' },
  too_many: { status: 429, text: 'Too many attempts. Try again in 15 minutes.' },
} as const

/** Ways to sign in besides the password. */
export interface SignInWays {
  readonly html: string
  readonly script?: string
}

/** Why the password alone does not change the password. */
export const NEEDS_ACCOUNT_PAGE = {
  status: 403,
  text: `Your account has a second factor. Change the password on the page of your account: ${ACCOUNT_PAGE}`,
} as const

/** @param refused why the last attempt failed; the same whether or not there is such an account */
export function loginPage(
  prompt: Prompt,
  { html, script }: SignInWays,
  refused?: Entered & { readonly status: number; readonly text: string },
): Page {
  const fields = [
    prompt.asksTenant ? tenantField(refused?.tenant) : '',
    usernameField(refused?.email),
    passwordField('Password', 'password', 'autocomplete="current-password"'),
    button('login', 'Sign in'),
    plainButton('deny', 'Cancel'),
  ]
  const text = `<p><b>${escapeHtml(prompt.clientName)}</b> asks you to sign in.</p>`
  const body = `${text}${errorText(refused?.text ?? '')}${form(fields.join(''))}${html}`
  const settings = { status: refused?.status ?? 200, formTarget: formTargetOf(prompt), script }
  return renderPage('Sign in', body, settings)
}

export function consentPage(prompt: Prompt): Page {
  const { clientName, email, isAllowed, access, resource, serverName } = prompt
  const others = `${plainButton('deny', 'Deny')}${plainButton('leave', 'Sign in with another account')}`
  if (!isAllowed) {
    const text = `<p>${escapeHtml(email)} may not use <b>${escapeHtml(clientName)}</b> for this.</p>`
    return page('Not for this account', `${text}${form(others)}`, 403, formTargetOf(prompt))
  }
  const warning = `${clientWarning(prompt)}${prompt.registered && staysOnDevice(prompt.redirectUri) ? LOCAL_WARNING : ''}`
  const server = serverName === '' ? '' : `<b>${escapeHtml(serverName)}</b><br>`
  const body = `<p><b>${escapeHtml(clientName)}</b> wants to act for you, ${escapeHtml(email)}, at ${server}<code>${escapeHtml(resource)}</code></p>
<p>It will be able to:</p>${accessList(access)}<p>You will be sent to ${destinationText(prompt.redirectUri)}. Allow access only if you have just started this sign-in there.</p>${warning}
<p>You can remove the access at any time under <a href="../agents">your agents</a>.</p>`
  return page(
    'Allow access?',
    `${body}${form(`${button('allow', 'Allow')}${others}`)}`,
    200,
    formTargetOf(prompt),
  )
}

/** Tells where an unknown client comes from. */
export function clientWarning({
  registered,
  clientId,
  clientName,
}: Pick<Prompt, 'registered' | 'clientId' | 'clientName'>): string {
  if (!registered) return ''
  const host = documentHostOf(clientId)
  const origin =
    host === undefined
      ? 'This client registered itself.'
      : `<code>${escapeHtml(host)}</code> describes this client, as <code>${escapeHtml(clientId)}</code>.`
  const mixed = mixesScripts(clientName)
    ? ' The name has letters of several scripts, which may look like another name.'
    : ''
  return `<p class="fault">${origin} Its name is not verified.${mixed}</p>`
}

const LOCAL_WARNING =
  '<p class="fault">The client runs on your own machine, where any program can pretend to be this client. Allow access only if you have just started the client yourself.</p>'

const OWN_SCOPES: Readonly<Record<string, string>> = {
  api: 'Use the REST API as you, with all that your account may do',
  openid: 'Know which account you signed in with',
  'platform:read':
    'Read what your account may see: settings, flows and their executions, functions, collections, the audit log',
  'platform:people':
    'Read who has access, as far as your account may see it: accounts, users with all that is stored about them, API keys, OAuth clients',
  'platform:write':
    'Change things in your name: write, publish, run and cancel flows, decide approvals, deploy functions, declare and change collections, write and delete documents, publish MCP servers and call their tools',
}

/**
 * Describes the scopes with their tools, those of one group or collection, and of one effect, together. The most powerful ones come first, so
 * that a long list cannot hide them.
 */
export function accessList(access: readonly ScopeAccess[]): string {
  const strength = ({ tools }: ScopeAccess) => Math.max(-1, ...tools.map(strengthOf))
  const scopes = access.toSorted((a, b) => strength(b) - strength(a))
  const groups = Map.groupBy(scopes, (one) => headingOf(one) ?? effectHeading(one) ?? one)
  const items = [...groups].map(([heading, members]) => {
    const title = typeof heading === 'string' ? `<p><b>${escapeHtml(heading)}</b></p>` : ''
    const names = new Set(members.map(({ scope }) => scope))
    const codes = [...names].map((scope) => `<code>${escapeHtml(scope)}</code>`).join(' ')
    return `<li>${title}${members.map(scopeLines).join('')}<small>${codes}</small></li>`
  })
  return `<ul class="access">${items.join('')}</ul>`
}

function scopeLines({ scope, tools }: ScopeAccess): string {
  if (tools.length === 0) return `<p>${OWN_SCOPES[scope] ?? 'No access until the server is published'}</p>`
  return tools
    .toSorted((a, b) => strengthOf(b) - strengthOf(a))
    .map(
      ({ title, annotations }) =>
        `<p><b>${escapeHtml(title)}</b><span class="does">${effectInWords(annotations)}</span></p>`,
    )
    .join('')
}

const VERBS: Readonly<Record<Effect, string>> = { reads: 'Read', adds: 'Add to', changes: 'Change or delete' }

const EFFECT_OF_GROUP: Readonly<Record<Effect, string>> = {
  reads: 'read',
  adds: 'add',
  changes: 'change or delete',
}

/**
 * `Read orders` if all tools of a scope read the collection orders, `Shop: read` if they read and are in the group Shop;
 * undefined if they have not that much in common. The title of a group is the author's, so the effect is always beside it.
 */
function headingOf({ tools }: ScopeAccess): string | undefined {
  const headings = tools.map(({ candidate, annotations, groupTitle }) => {
    const [source, collection] = candidate.split(':')
    if (groupTitle) return `${groupTitle}: ${EFFECT_OF_GROUP[effectOf(annotations)]}`
    return source === 'collections' ? `${VERBS[effectOf(annotations)]} ${collection}` : undefined
  })
  const [first] = headings
  return headings.every((one) => one === first) ? first : undefined
}

/** Of a scope that stands for many (core/tool-access.ts), whose tools have nothing else in common. */
function effectHeading({ scope, tools }: ScopeAccess): string | undefined {
  const [strongest] = tools.toSorted((a, b) => strengthOf(b) - strengthOf(a))
  if (strongest === undefined || !isUmbrella(scope)) return undefined
  return EFFECT_HEADINGS[effectOf(strongest.annotations)]
}

const EFFECT_HEADINGS: Readonly<Record<Effect, string>> = {
  reads: 'Tools that read',
  adds: 'Tools that add',
  changes: 'Tools that change or delete',
}

const NEW = `autocomplete="new-password" minlength="${ISSUER_LIMITS.passwordCharsMin}"`
const passwordTwice = (label: string) => [
  passwordField(`${label}, at least ${ISSUER_LIMITS.passwordCharsMin} characters`, 'password', NEW),
  passwordField('Repeat the password', 'again', NEW),
]

/** The first password of an account, or one in place of a lost one. */
export const NEW_PASSWORD = passwordTwice('Password')
/** Beside the field of the current one. */
export const OTHER_PASSWORD = passwordTwice('New password')

/** The page where account holders change their password. @param refused why the last attempt failed */
export function passwordPage(
  refused?: { readonly status: number; readonly text: string },
  entered: Entered = {},
): Page {
  const fields = [
    tenantField(entered.tenant),
    usernameField(entered.email),
    passwordField('Current password', 'current', 'autocomplete="current-password"'),
    ...OTHER_PASSWORD,
    '<button>Change the password</button>',
  ]
  const text =
    '<p>A new password ends all sessions of the account. An admin with a higher role can reset a lost password.</p>'
  const body = `${text}${errorText(refused?.text ?? '')}${form(fields.join(''))}`
  return page('Change your password', body, refused?.status ?? 200)
}

export function invitationPage(email: string, wrong = ''): Page {
  const fields = [...NEW_PASSWORD, '<button>Set the password</button>']
  const body = `<p>Set a password for the account of ${escapeHtml(email)}.</p>${errorText(wrong)}${form(fields.join(''))}`
  return page('Set your password', body, wrong === '' ? 200 : 400)
}

/** Asks for the token with which the Temporal UI in this browser reads payloads. @param refused why the last one was rejected */
export function payloadsPage(refused?: Problem): Page {
  const token = field('Token', 'name="token" type="password" maxlength="4096" autocomplete="off" required')
  const text = `<p>The Temporal UI in this browser will show the payloads of executions to everyone who uses this browser. Enter a token of an
operator or of an admin (<code>tenon token</code>). It is stored in a cookie that no page can read and that serves no other
purpose, for at most an hour.</p>`
  const wrong =
    refused === undefined ? '' : [PROBLEMS[refused.code].title, refused.detail].filter(Boolean).join('. ')
  const body = `${text}${errorText(wrong)}${form(`${token}<button>Show payloads</button>`)}`
  return page('Payloads in the Temporal UI', body, refused?.status ?? 200)
}

/** Explains the settings of the UI, needed once per browser. @param endpoint of the codec server */
export function payloadsReadablePage(what: { until: Date; uiUrl: string; endpoint: string }): Page {
  const { until, uiUrl, endpoint } = what
  const body = `<p>Until ${until.toISOString().slice(11, 16)} UTC, this browser may read them.</p>
<p>On first use, open the <a href="${escapeHtml(uiUrl)}">Temporal UI</a>, choose the glasses at the top, then <b>Use my
browser setting</b>, and set</p>
<ul><li><b>Codec Server browser endpoint</b> to <code>${escapeHtml(endpoint)}</code></li><li><b>Include cross-origin credentials</b></li></ul>`
  return page('Payloads can be read', body)
}

/** A page without a form. */
export function plainPage(title: string, text: string, status: number): Page {
  return page(title, `<p>${escapeHtml(text)}</p>`, status)
}

/** Names the host, or the scheme that an application on the device has claimed. */
function destinationText(redirectUri: string): string {
  const name = `<code>${escapeHtml(destinationOf(redirectUri))}</code>`
  return webOriginOf(redirectUri) === undefined
    ? `the application on this device that opens ${name} links`
    : name
}

/** Browsers apply `form-action` to redirects as well, so the policy names the client's origin, or its scheme. */
export const formTargetOf = ({ redirectUri }: Prompt): string =>
  webOriginOf(redirectUri) ?? destinationOf(redirectUri)
