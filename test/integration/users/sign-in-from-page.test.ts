/** The page of docs/users.md, which signs a user in from another origin, in Chromium. */

import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { hasChromium, launchChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { addUser, addUserClient, createUserApp } from '../../support/clients/users.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('signing in from a page')

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('page of the documentation', () => {
  let browser: Browser
  let server: Server
  let html = ''
  beforeAll(async () => {
    browser = await launchChromium()
    server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(html))
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  })
  afterAll(async () => {
    await browser?.close()
    server?.close()
  })

  test('sign-in, code and token: the page reads who the user is', async () => {
    const app = await createUserApp(await createTestWorkspace())
    const user = await addUser(app)
    const origin = `http://localhost:${(server.address() as AddressInfo).port}`
    const clientId = await addUserClient(app.workspace, [`${origin}/`])
    const [, page = ''] = /```html\n([\s\S]*?)```/.exec(await readFile('docs/users.md', 'utf8')) ?? []
    html = `<!doctype html>${page}`
      .replaceAll('http://127.0.0.1:8787', inject('tenon').url)
      .replaceAll('http://localhost:5173', origin)
      .replaceAll('client_…', clientId)
    const tab = await browser.newPage()
    await tab.goto(origin)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.getByLabel('E-mail address').fill(user.email)
    await tab.getByLabel('Password').fill(user.password)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.waitForFunction("document.querySelector('#out')?.textContent !== ''")
    expect(JSON.parse((await tab.locator('#out').textContent()) ?? '')).toMatchObject({ subject: user.id })
    expect(tab.url()).toBe(`${origin}/`)
    await tab.close()
  })
})
