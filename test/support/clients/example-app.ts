/** Sets up an example of a web page as its README says, serves it from another origin, and signs its users up and in. */

import { execFile } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { inject } from 'vitest'
import type { TestWorkspace } from '../fixtures/tenants.ts'
import { launchChromium } from './chromium.ts'
import { mailTo } from './mails.ts'
import type { TestUser } from './users.ts'

/** What setup.mjs writes beside the page, with its media type. */
const WRITTEN: Readonly<Record<string, string>> = {
  '/config.json': 'application/json',
  '/tenon-client.js': 'text/javascript',
}

export class ExampleApp {
  /** The URL of the page, on `localhost`, which is another origin than that of the API. */
  readonly origin: string
  readonly #browser: Browser
  readonly #close: () => Promise<void>
  readonly #setUp: () => Promise<void>

  private constructor(
    origin: string,
    browser: Browser,
    setUp: () => Promise<void>,
    close: () => Promise<void>,
  ) {
    this.origin = origin
    this.#browser = browser
    this.#setUp = setUp
    this.#close = close
  }

  /**
   * Runs setup.mjs of an example and serves its page.
   * @param name folder below examples/
   * @param args arguments of setup.mjs after the URL of the page; the folder of config.json follows them
   */
  static async start(name: string, workspace: TestWorkspace, ...args: string[]): Promise<ExampleApp> {
    const folder = await mkdtemp(join(tmpdir(), `tenon-${name}-`))
    const server = createServer((request, response) => {
      const type = WRITTEN[request.url ?? '']
      response.setHeader('content-type', type ?? 'text/html')
      const file = type === undefined ? `examples/${name}/index.html` : join(folder, request.url ?? '')
      createReadStream(file).pipe(response)
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const origin = `http://localhost:${(server.address() as AddressInfo).port}`
    const setUp = () => runSetup(name, workspace, [`${origin}/`, ...args, folder])
    await setUp()
    const browser = await launchChromium()
    return new ExampleApp(origin, browser, setUp, async () => {
      await browser.close()
      server.close()
      await rm(folder, { recursive: true, force: true })
    })
  }

  /** Runs setup.mjs once more. */
  setUpAgain(): Promise<void> {
    return this.#setUp()
  }

  /** Signs up, follows the link of the mail, and signs in. */
  async signUp(user: TestUser): Promise<Page> {
    const tab = await (await this.#browser.newContext()).newPage()
    await tab.goto(this.origin)
    await tab.getByRole('button', { name: 'Create an account' }).click()
    await tab.getByLabel('E-mail address').fill(user.email)
    await fillPasswords(tab, user)
    await tab.getByRole('button', { name: 'Create account' }).click()
    const { link } = await mailTo(user.email, 'Confirm your e-mail address')
    await tab.goto(link)
    await fillPasswords(tab, user)
    await tab.locator('main button').first().click()
    await this.#signIn(tab, user)
    return tab
  }

  /** Signs in, in a browser without a session. */
  async signIn(user: TestUser): Promise<Page> {
    const tab = await (await this.#browser.newContext()).newPage()
    await this.#signIn(tab, user)
    return tab
  }

  async #signIn(tab: Page, user: TestUser): Promise<void> {
    await tab.goto(this.origin)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.getByLabel('E-mail address').fill(user.email)
    await tab.getByLabel('Password').fill(user.password)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.locator('#who', { hasText: user.email }).waitFor()
  }

  /** Opens a page in a browser without a session. */
  async open(url: string): Promise<Page> {
    const tab = await (await this.#browser.newContext()).newPage()
    await tab.goto(url)
    return tab
  }

  close(): Promise<void> {
    return this.#close()
  }
}

/**
 * Lets the access token of the page expire, and sends a form twice at the same time.
 * @param form its selector
 * @returns the number of token requests, after both replies
 */
export async function sendTwiceWithExpiredToken(tab: Page, form: string): Promise<number> {
  let refreshes = 0
  tab.on('request', (request) => {
    if (request.method() === 'POST' && request.url().endsWith('/auth/token')) refreshes += 1
  })
  let replies = 0
  const bothReplied = tab.waitForResponse((response) => {
    if (response.request().method() === 'POST' && response.url().includes('/v1/collections/')) replies += 1
    return replies === 2
  })
  await tab.evaluate('{ const now = Date.now; Date.now = () => now() + 3_600_000 }')
  const element = `document.querySelector(${JSON.stringify(form)})`
  await tab.evaluate(`for (let n = 0; n < 2; n++) ${element}.requestSubmit()`)
  await bothReplied
  return refreshes
}

async function fillPasswords(tab: Page, { password }: TestUser): Promise<void> {
  for (const field of await tab.locator('input[type=password]').all()) await field.fill(password)
}

/** @param args arguments of setup.mjs */
export async function runSetup(
  name: string,
  workspace: TestWorkspace,
  args: readonly string[],
): Promise<void> {
  const env = {
    ...process.env,
    TENON_URL: inject('tenon').url,
    TENON_WORKSPACE_ID: workspace.workspaceId,
    TENON_SERVICE_KEY: workspace.service['apikey'],
    TENON_TOKEN: workspace.operator['authorization']?.replace('Bearer ', ''),
  }
  await promisify(execFile)(process.execPath, [`examples/${name}/setup.mjs`, ...args], { env })
}
