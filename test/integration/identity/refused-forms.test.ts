/** Forms of the platform's pages that are refused: they keep what was entered, and errors are pages without hints for admins. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { addClient, authorization, Browser, REDIRECT } from '../../support/clients/browser.ts'
import { accountPageOf, createUserApp, type UserApp } from '../../support/clients/users.ts'
import { createTestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let app: UserApp
let clientId: string
beforeAll(async () => {
  app = await createUserApp(await createTestWorkspace())
  clientId = await addClient(app.workspace.operator)
})

interface Form {
  readonly url: () => string
  readonly fields: Readonly<Record<string, string>>
}

const NEW = { password: 'another password', again: 'another password' }
const FORMS: Readonly<Record<string, Form>> = {
  'sign-in of users': { url: () => authorization(app.clientId).url, fields: { action: 'login' } },
  'account of a user': { url: () => accountPageOf(app), fields: { action: 'sign_in' } },
  'sign-in of accounts': { url: () => authorization(clientId).url, fields: { action: 'login' } },
  agents: { url: () => `${inject('tenon').url}/auth/agents`, fields: { action: 'sign_in' } },
  'change of a password': {
    url: () => `${inject('tenon').url}/auth/password`,
    fields: { current: 'a wrong password', ...NEW },
  },
}

test.each(Object.keys(FORMS))(
  '%s: a wrong password: 401, the form keeps address and tenant',
  async (name) => {
    const { url, fields } = FORMS[name] as Form
    const browser = new Browser(REDIRECT)
    const page = await browser.open(url())
    const email = `${unique('ida')}@example.test`
    const hasTenant = page.html.includes('name="tenant"')
    const tenant = hasTenant ? { tenant: 'no-such-"tenant' } : {}
    const again = await browser.submit(page, { password: 'a wrong password', ...fields, ...tenant, email })
    expect(again.status).toBe(401)
    expect(again.html).toContain(`autocomplete="username" value="${email}"`)
    expect(again.html.includes('value="no-such-&quot;tenant"')).toBe(hasTenant)
    expect(again.html).not.toContain('a wrong password')
  },
)

describe('form of another site', () => {
  const post = (path: string, accept: string) =>
    fetch(`${inject('tenon').url}${path}`, {
      method: 'POST',
      headers: {
        accept,
        origin: 'https://other.example',
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: 'email=ida%40example.test',
    })

  test.each(['/auth/password', '/auth/agents', '/auth/user/link?token=x', '/approvals?token=x'])(
    '%s: 403, to a browser as a page without a hint, to others as a problem',
    async (path) => {
      const page = await post(path, 'text/html,application/xhtml+xml;q=0.9')
      const html = await page.text()
      expect([page.status, page.headers.get('content-type')]).toEqual([403, 'text/html; charset=utf-8'])
      expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
      expect(html).toContain('This form comes from another site.')
      const problem = await post(path, '*/*')
      const { hint } = (await problem.json()) as { hint: string }
      expect(problem.headers.get('content-type')).toContain('application/problem+json')
      expect(html).not.toContain(hint)
    },
  )
})

test('form of more bytes than a page takes: 413, the page names the limit of forms', async () => {
  const { url } = inject('tenon')
  const headers = { accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded', origin: url }
  const body = `email=${'x'.repeat(8_192)}`
  const reply = await fetch(`${url}/auth/password`, { method: 'POST', headers, body })
  expect([reply.status, await reply.text()]).toEqual([413, expect.stringContaining('at most 8192 bytes')])
})
