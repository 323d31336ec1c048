/** Two people who are no admins approve through the page, in Chromium on the screen of a phone and without scripts. */

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addAccount, type TestAccount } from '../../support/clients/browser.ts'
import { hasChromium, launchChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('approving in a browser')

const FORM = `form:
          type: object
          properties:
            reason: { type: string, minLength: 3, title: Reason, description: 'It is kept with the payment.' }
            account: { enum: [travel, office], title: Account }
            urgent: { type: boolean, title: Urgent }
          required: [reason, account]`

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('page of an approval', () => {
  let browser: Browser
  let workspace: TestWorkspace
  let people: TestAccount[]

  beforeAll(async () => {
    workspace = await createTestWorkspace()
    const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
    const add = () => addAccount(workspace.operator, { role: 'service', ...place })
    people = [await add(), await add()]
    browser = await launchChromium()
  })
  afterAll(() => browser?.close())

  async function openPage(link: string): Promise<Page> {
    const context = await browser.newContext({
      viewport: { width: 360, height: 640 },
      javaScriptEnabled: false,
    })
    const page = await context.newPage()
    await page.goto(link)
    return page
  }

  /** Every control has a name for a screen reader, and nothing is wider than the screen. */
  async function expectAccessible(page: Page): Promise<void> {
    for (const control of await page.locator('input:not([type=hidden]), select, textarea').all()) {
      const id = await control.getAttribute('id')
      const labelled =
        id === null ? page.locator('label', { has: control }) : page.locator(`label[for="${id}"]`)
      expect(await labelled.count()).toBe(1)
    }
    const box = await page.locator('form').first().boundingBox()
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(360)
    expect(await page.locator('html').getAttribute('lang')).toBe('en')
  }

  test('two people with accounts: sign in, read the data, fill in the form, approve', async () => {
    const title = unique('Pay')
    const executions = new Executions(workspace)
    const approvers = people.map(({ email }) => `'${email}'`).join(', ')
    const flow = await executions.publish(`  - board:
      approve:
        title: ${title}
        approvers: [${approvers}]
        quorum: 2
        ${FORM}`)
    const run = await executions.start(flow, { input: { order: 'A-4711', sum: 40 } })
    for (const person of people) {
      const { link } = await mailTo(person.email, title)
      const page = await openPage(link)
      await expectAccessible(page)
      await page.getByLabel('Password').fill(person.password)
      await page.getByRole('button', { name: 'Sign in' }).click()
      expect(await page.locator('h1').textContent()).toBe(title)
      expect(await page.locator('dl').textContent()).toContain('A-4711')
      await expectAccessible(page)
      await page.getByLabel('Reason').fill('It is right')
      await page.getByLabel('Account').selectOption('travel')
      await page.getByLabel('Urgent').check()
      await page.getByRole('button', { name: 'Approve' }).click()
      expect(await page.getByRole('status').textContent()).toMatch(/recorded|approved/)
      expect(await page.locator('ul').textContent()).toContain(`Approved by ${person.email}`)
      await page.context().close()
    }
    const { output } = await executions.ended(run)
    const form = { reason: 'It is right', account: 'travel', urgent: true }
    expect(output.decisions).toMatchObject(people.map(({ id }) => ({ by: id, approved: true, form })))
  })
})
