/** The example examples/todo-web, as its README sets it up, in Chromium and from another origin. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { hasChromium, launchChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { newUser, type TestUser } from '../../support/clients/users.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('examples/todo-web')

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('todo-web', { timeout: 120_000 }, () => {
  let workspace: TestWorkspace
  let browser: Browser
  let server: Server
  let origin: string
  let folder: string
  beforeAll(async () => {
    workspace = await createTestWorkspace()
    folder = await mkdtemp(join(tmpdir(), 'tenon-todo-'))
    server = createServer((request, response) => void serve(request.url === '/config.json', response))
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    origin = `http://localhost:${(server.address() as AddressInfo).port}`
    const { url } = inject('tenon')
    const token = workspace.operator['authorization']?.replace('Bearer ', '')
    const env = {
      ...process.env,
      TENON_URL: url,
      TENON_WORKSPACE_ID: workspace.workspaceId,
      TENON_TOKEN: token,
    }
    await promisify(execFile)(process.execPath, ['examples/todo-web/setup.mjs', `${origin}/`, folder], {
      env,
    })
    browser = await launchChromium()
  })
  afterAll(async () => {
    await browser?.close()
    server?.close()
    await rm(folder, { recursive: true, force: true })
  })

  async function serve(isConfig: boolean, response: ServerResponse): Promise<void> {
    const file = isConfig ? join(folder, 'config.json') : 'examples/todo-web/index.html'
    response.setHeader('content-type', isConfig ? 'application/json' : 'text/html').end(await readFile(file))
  }

  /** Signs up, follows the link of the mail, and signs in. */
  async function begin(user: TestUser): Promise<Page> {
    const tab = await (await browser.newContext()).newPage()
    await tab.goto(origin)
    await tab.getByRole('button', { name: 'Create an account' }).click()
    await tab.getByLabel('E-mail address').fill(user.email)
    for (const field of await tab.locator('input[type=password]').all()) await field.fill(user.password)
    await tab.getByRole('button', { name: 'Create account' }).click()
    const { link } = await mailTo(user.email, 'Confirm your e-mail address')
    await tab.goto(link)
    for (const field of await tab.locator('input[type=password]').all()) await field.fill(user.password)
    await tab.locator('main button').first().click()
    await signIn(tab, user)
    return tab
  }

  async function signIn(tab: Page, user: TestUser): Promise<void> {
    await tab.goto(origin)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.getByLabel('E-mail address').fill(user.email)
    await tab.getByLabel('Password').fill(user.password)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.getByText(user.email).waitFor()
  }

  const add = async (tab: Page, title: string) => {
    await tab.getByLabel('New to-do').fill(title)
    await tab.getByRole('button', { name: 'Add' }).click()
    await tab.getByText(title).waitFor()
  }
  const shown = (tab: Page) => tab.locator('#list span').allTextContents()

  test('two people – sign up, keep lists of their own, and see changes live', async () => {
    const [mia, ben] = [newUser(), newUser()]
    const [first, other] = [await begin(mia), await begin(ben)]
    await add(first, 'water the plants')
    await add(other, 'mend the roof')
    expect([await shown(first), await shown(other)]).toEqual([['water the plants'], ['mend the roof']])

    const device = await (await browser.newContext()).newPage()
    await signIn(device, mia)
    await device.getByText('water the plants').waitFor()
    await device.getByLabel('Done: water the plants').check()
    await first.locator('.done', { hasText: 'water the plants' }).waitFor()
    await device.getByLabel('Delete: water the plants').click()
    await first.getByText('water the plants').waitFor({ state: 'detached' })
    expect(await shown(other)).toEqual(['mend the roof'])

    await first.getByRole('button', { name: 'Sign out' }).click()
    await first.getByRole('button', { name: 'Sign in' }).waitFor()
    const stored = await call('GET', '/v1/collections/todos/documents', { as: workspace.service })
    expect(stored.body.data.map(({ title }: { title: string }) => title)).toEqual(['mend the roof'])
    expect((await call('GET', '/v1/collections/todos/documents', { as: workspace.anon })).status).toBe(403)
  })
})
