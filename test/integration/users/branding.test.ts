/** The look of pages for users: settings, policy of the pages, and Chromium without scripts, checked by axe. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser as Chromium, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { authorization, Browser, REDIRECT } from '../../support/clients/browser.ts'
import {
  expectAccessible,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
} from '../../support/clients/chromium.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { accountPageOf, addUser, createUserApp, newUser, type UserApp } from '../../support/clients/users.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { FakeIdentityProvider } from '../../support/servers/fake-identity-provider.ts'
import { configure, tryConfigure } from '../../support/stack/workspace-settings.ts'

noticeWithoutChromium('pages for users in a browser')

/** One pixel. */
const PNG =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

let app: UserApp
beforeAll(async () => {
  app = await createUserApp(await createTestWorkspace())
})

describe('auth.branding', () => {
  test.each([
    ['a light colour', { color: '#777777' }, '4.47:1'],
    ['white', { color: '#ffffff' }, '1:1'],
    ['a colour by name', { color: 'red' }, 'auth'],
    ['colour that ends the style', { color: '#000</style>' }, 'auth'],
    ['http', { logo_url: 'http://app.test/logo.png' }, 'logo_url'],
    ['javascript', { logo_url: 'javascript:alert(1)' }, 'logo_url'],
    ['SVG', { logo_url: 'data:image/svg+xml;base64,PHN2Zy8+' }, 'logo_url'],
    [
      'SVG that says it is PNG',
      { logo_url: `data:image/png;base64,${btoa('<svg onload=alert(1)>')}` },
      'logo_url',
    ],
    ['URL with a directive', { logo_url: 'https://app.test/x;script-src *' }, 'logo_url'],
    ['URL with a query', { logo_url: 'https://app.test/x?y' }, 'logo_url'],
    ['URL with a password', { logo_url: 'https://user:x@app.test/x' }, 'logo_url'],
    ['URL that is not normalised', { logo_url: 'https://app.test/a/../b' }, 'logo_url'],
    ['image above 64 KiB', { logo_url: `${PNG.slice(0, -2)}${'AAAA'.repeat(22_000)}` }, 'logo_url'],
    ['unknown member', { css: 'body{}' }, 'css'],
    ['name with an invisible character', { name: 'A\u202eB' }, 'auth'],
  ])('%s: 400 that names it', async (_what, branding, text) => {
    const reply = await tryConfigure(app.workspace, { auth: { branding } })
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
    expect(JSON.stringify(reply.body)).toContain(text)
  })

  test('settings that are not named: stay', async () => {
    const branding = { name: 'Shop', color: '#1f4e8c' }
    expect((await configure(app.workspace, { auth: { branding } })).auth).toEqual({
      sign_up: 'open',
      branding,
      providers: [],
    })
    expect((await configure(app.workspace, { anon: { events: 'none' } })).auth.branding).toEqual(branding)
    const { workspaceId, operator: as } = app.workspace
    const read = await call('GET', `/v1/services?workspace_id=${workspaceId}`, { as })
    expect(read.body.auth).toEqual({ sign_up: 'open', branding, providers: [] })
    expect((await configure(app.workspace, { auth: { branding: {} } })).auth.branding).toEqual({})
  })

  test.each([
    ['https', 'https://cdn.app.test:8443/a/logo%20x.png', 'img-src https://cdn.app.test:8443/a/logo%20x.png'],
    ['data', PNG, 'img-src data:'],
  ])('logo by %s: the policy allows it and nothing else', async (_what, logo, source) => {
    await configure(app.workspace, {
      auth: { branding: { name: '<b>Shop</b>', logo_url: logo, color: '#7A1F5C' } },
    })
    const page = await new Browser(REDIRECT).open(authorization(app.clientId).url)
    const policy = page.headers.get('content-security-policy')?.split('; ') ?? []
    expect(policy).toContain("default-src 'none'")
    expect(policy.filter((directive) => directive.startsWith('img-src'))).toEqual([source])
    expect(page.html).toContain('&lt;b&gt;Shop&lt;/b&gt;')
    expect(page.html).toContain('#7A1F5C')
    await configure(app.workspace, { auth: { branding: {} } })
    const plain = await new Browser(REDIRECT).open(authorization(app.clientId).url)
    expect(plain.headers.get('content-security-policy')).not.toContain('img-src')
  })
})

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('pages in Chromium', () => {
  let browser: Chromium
  beforeAll(async () => {
    browser = await launchChromium()
    const branding = { name: 'Corner Shop', logo_url: PNG, color: '#7a1f5c' }
    await configure(app.workspace, { auth: { branding } })
  })
  afterAll(() => browser?.close())

  const open = async (url: string, javaScriptEnabled: boolean): Promise<Page> => {
    const context = await browser.newContext({ viewport: { width: 360, height: 640 }, javaScriptEnabled })
    const page = await context.newPage()
    await page.goto(url)
    return page
  }

  test('each page: no finding of axe, fits a phone, shows name, logo and colour', async () => {
    const user = await addUser(app)
    const page = await open(authorization(app.clientId).url, true)
    await expectAccessible(page)
    expect(await page.locator('.brand').textContent()).toBe('Corner Shop')
    expect(await page.evaluate("document.querySelector('.brand img').naturalWidth")).toBe(1)
    const colour = "getComputedStyle(document.querySelector('button[value=login]')).backgroundColor"
    expect(await page.evaluate(colour)).toBe('rgb(122, 31, 92)')
    await page.getByRole('link', { name: 'Create an account' }).click()
    await expectAccessible(page)
    await page.getByLabel('E-mail address').fill(newUser().email)
    for (const label of [/^Password/, 'Repeat the password']) await page.getByLabel(label).fill(user.password)
    await page.getByRole('button', { name: 'Create account' }).click()
    await expectAccessible(page)
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.getByRole('link', { name: 'Forgot your password?' }).click()
    await expectAccessible(page)
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByRole('button', { name: 'Send me a link' }).click()
    await expectAccessible(page)
    await page.goto((await mailTo(user.email, 'Set a new password')).link)
    await expectAccessible(page)
    await page.goto(accountPageOf(app))
    await expectAccessible(page)
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await page.getByRole('button', { name: 'Continue' }).click()
    await expectAccessible(page)
    await page.context().close()
  })

  test('sign-up to sign-in: works without scripts', async () => {
    const user = newUser()
    const client = createServer((_request, response) => response.end('arrived'))
    await new Promise<void>((listening) => client.listen(0, '127.0.0.1', listening))
    const { port } = client.address() as AddressInfo
    const redirect_uri = `http://127.0.0.1:${port}/callback`
    const page = await open(authorization(app.clientId, { redirect_uri }).url, false)
    await page.getByRole('link', { name: 'Create an account' }).click()
    await page.getByLabel('E-mail address').fill(user.email)
    for (const label of [/^Password/, 'Repeat the password']) await page.getByLabel(label).fill(user.password)
    await page.getByRole('button', { name: 'Create account' }).click()
    expect(await page.getByRole('status').textContent()).toContain('We have sent you a mail')
    const link = await open((await mailTo(user.email, 'Confirm your e-mail address')).link, false)
    await link.getByLabel('Password').fill(user.password)
    await link.getByRole('button', { name: 'Confirm' }).click()
    expect(await link.locator('h1').textContent()).toBe('Your e-mail address is confirmed')
    const back = link.getByRole('link', { name: 'Back to Corner Shop' })
    expect(await back.getAttribute('href')).toBe(`http://127.0.0.1:${port}/`)
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(/callback/)
    expect(new URL(page.url()).searchParams.get('code')).toBeTruthy()
    await Promise.all([link.context().close(), page.context().close()])
    client.close()
  })

  test('identity provider of another site: signs in without scripts; no finding of axe', async () => {
    const provider = await FakeIdentityProvider.open()
    provider.person = { sub: 'ida', email: newUser().email, email_verified: true }
    // Chromium resolves this name to this machine.
    const authorization_endpoint = `${provider.origin.replace('127.0.0.1', 'idp.test')}/authorize`
    provider.flaws = { discovery: { authorization_endpoint } }
    const settings = { id: 'idp', name: 'Corner Shop staff', issuer: provider.origin, client_id: 'tenon' }
    await configure(app.workspace, {
      egress: { allow: [provider.host] },
      auth: { providers: [settings] },
    })
    const client = createServer((_request, response) => response.end('arrived'))
    await new Promise<void>((listening) => client.listen(0, '127.0.0.1', listening))
    const { port } = client.address() as AddressInfo
    const { url } = authorization(app.clientId, { redirect_uri: `http://127.0.0.1:${port}/callback` })
    const page = await open(url, true)
    await expectAccessible(page)
    const plain = await open(url, false)
    await plain.getByRole('link', { name: 'Continue with Corner Shop staff' }).click()
    await plain.waitForURL(/callback/)
    expect(new URL(plain.url()).searchParams.get('code')).toBeTruthy()
    expect(provider.exchanges).toHaveLength(1)
    await Promise.all([page.context().close(), plain.context().close(), provider.close()])
    client.close()
  })
})
