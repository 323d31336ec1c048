/** The pages of an approval: plain HTML without scripts, which work on a phone and with a screen reader. */

import { isObject } from '../core/json.ts'
import type { Approval } from '../features/flows/approvals/approval-shape.ts'
import {
  errorText,
  escapeHtml,
  type Page,
  passwordField,
  renderPage,
} from '../features/identity/pages/pages.ts'
import type { Refusal } from '../features/identity/pages/user-pages.ts'
import type { Brand } from '../features/identity/users/users-store.ts'
import { formFields } from './approval-form.ts'

export interface Viewer {
  readonly approval: Approval
  /** The name and look of the workspace that asks. */
  readonly brand: Brand
  /** The e-mail address of the person, or its subject. */
  readonly person: string
  /** The person has signed in. */
  readonly isAccount: boolean
}

const form = (fields: string) => `<form method="post">${fields}</form>`
const titleOf = ({ title, step, flow }: Approval) => title ?? `${step} of ${flow}`

/** @param refused why the last decision was refused, and what was sent */
export function decisionPage(
  { approval, brand, person, isAccount }: Viewer,
  refused?: {
    readonly status: number
    readonly text: string
    readonly fields: Readonly<Record<string, string>>
  },
): Page {
  const fields = refused?.fields ?? {}
  const comment = `<label for="comment">Comment (optional)</label><textarea id="comment" name="comment" rows="2" maxlength="2000">${escapeHtml(fields['comment'] ?? '')}</textarea>`
  const buttons =
    '<button name="action" value="approve">Approve</button><button class="reject" name="action" value="reject" formnovalidate>Reject</button>'
  const leave = isAccount
    ? form('<button class="plain" name="action" value="leave">Sign in as another person</button>')
    : ''
  const body = `${errorText(refused?.text ?? '')}${about(approval, brand)}<p>You decide as <b>${escapeHtml(person)}</b>.</p>
${form(`${formFields(approval.form, fields)}${comment}${buttons}`)}${leave}`
  return renderPage(titleOf(approval), body, { brand, status: refused?.status ?? 200 })
}

/** An approval that is not open. */
export function outcomePage({ approval, brand }: Viewer, status: number): Page {
  const lines = approval.decisions.map((one) => {
    const { by, as, approved, at, comment } = one as Record<string, unknown>
    const said = typeof comment === 'string' ? `: ${escapeHtml(comment)}` : ''
    return `<li>${approved === true ? 'Approved' : 'Rejected'} by ${escapeHtml(String(as ?? by))} at ${escapeHtml(String(at))}${said}</li>`
  })
  const state =
    approval.status === 'open'
      ? 'Your decision is recorded. Further decisions are required.'
      : `The approval is ${approval.status}.`
  const body = `<p role="status">${state}</p><ul>${lines.join('')}</ul>${about(approval, brand)}`
  return renderPage(titleOf(approval), body, { brand, status })
}

/** @param refused why the last sign-in failed */
export function approverSignInPage(brand: Brand, email: string, error?: Refusal): Page {
  const password = passwordField('Password', 'password', 'autocomplete="current-password"')
  const hidden = `<input type="hidden" name="email" value="${escapeHtml(email)}" autocomplete="username">`
  const body = `<p>This link is for <b>${escapeHtml(email)}</b>. Sign in to see the request.</p>
${errorText(error?.text ?? '')}${form(`${hidden}${password}<button name="action" value="sign_in">Sign in</button>`)}`
  return renderPage('Sign in to decide', body, { brand, status: error?.status ?? 200 })
}

export function otherPersonPage(brand: Brand, email: string): Page {
  const body = `<p>This link is for <b>${escapeHtml(email)}</b>, and you have signed in as another person. A forwarded link
works only for the person that it names.</p>${form('<button name="action" value="leave">Sign in as this person</button>')}`
  return renderPage('This link is for another person', body, { brand, status: 403 })
}

function about({ data, deadline_at: deadline, flow, reopened }: Approval, { name }: Brand): string {
  const until = deadline === null ? '' : ` Decide until ${deadline.slice(0, 16).replace('T', ' ')} UTC.`
  const again = reopened
    ? '<p>The data were changed after the approval, so a new decision is required.</p>'
    : ''
  return `<p>The flow ${escapeHtml(flow)} of the workspace ${escapeHtml(name)} asks for your decision.${until}</p>${again}${dataList(data)}`
}

function dataList(data: unknown): string {
  if (data === null || data === undefined) return ''
  if (!isObject(data)) return `<pre>${displayText(data)}</pre>`
  const items = Object.entries(data).map(
    ([name, value]) => `<dt>${escapeHtml(name)}</dt><dd><pre>${displayText(value)}</pre></dd>`,
  )
  return `<dl>${items.join('')}</dl>`
}

const displayText = (value: unknown) =>
  escapeHtml(typeof value === 'string' ? value : JSON.stringify(value, null, 2))
