/** Switching the second factor on and signing in with it, in Chromium without scripts, checked by axe. */

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { authorization } from '../../support/clients/browser.ts'
import {
  expectAccessible,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
} from '../../support/clients/chromium.ts'
import { codeAt } from '../../support/clients/second-factors.ts'
import { accountPageOf, addUser, createUserApp } from '../../support/clients/users.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('the second factor in a browser')

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('second factor in Chromium', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchChromium()
  })
  afterAll(() => browser?.close())

  const button = (page: Page, name: string) => page.getByRole('button', { name })

  test('authenticator app: added and used without scripts; no finding of axe on any page', async () => {
    const app = await createUserApp(await createTestWorkspace())
    const user = await addUser(app)
    // The policy of the pages permits no scripts; with JavaScript off, axe could not run.
    const context = await browser.newContext({ viewport: { width: 360, height: 640 } })
    const page = await context.newPage()
    await page.goto(accountPageOf(app))
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await button(page, 'Continue').click()
    await expectAccessible(page)
    const section = page.locator('section', { hasText: 'Second factor' })
    await section.getByLabel('Your password').fill(user.password)
    await button(page, 'Add an authenticator app').click()
    await expectAccessible(page)
    const secret = ((await page.locator('code').textContent()) ?? '').replaceAll(' ', '')
    await page.getByLabel('Code').fill(codeAt(secret))
    await button(page, 'Turn on').click()
    await expectAccessible(page)
    expect(await page.locator('li').count()).toBe(10)
    await button(page, 'I have saved the codes').click()
    await expectAccessible(page)
    await page.goto(authorization(app.clientId, { redirect_uri: 'https://app.test/callback' }).url)
    await page.getByLabel('E-mail address').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    await button(page, 'Sign in').click()
    await page.getByLabel('Code').fill('000000')
    await button(page, 'Continue').click()
    await expectAccessible(page)
    await page.getByLabel('Code').fill(codeAt(secret, 1))
    const arrival = page.waitForRequest(/app\.test\/callback/)
    await button(page, 'Continue').click()
    expect(new URL((await arrival).url()).searchParams.get('code')).toBeTruthy()
    await context.close()
  })
})
