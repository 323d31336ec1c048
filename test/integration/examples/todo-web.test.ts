/** The example examples/todo-web, as its README sets it up, in Chromium and from another origin. */

import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { ExampleApp, sendTwiceWithExpiredToken } from '../../support/clients/example-app.ts'
import { newUser } from '../../support/clients/users.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('examples/todo-web')

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('todo-web', () => {
  let workspace: TestWorkspace
  let app: ExampleApp
  beforeAll(async () => {
    workspace = await createTestWorkspace()
    app = await ExampleApp.start('todo-web', workspace)
  })
  afterAll(() => app?.close())

  const add = async (tab: Page, title: string) => {
    await tab.getByLabel('New to-do').fill(title)
    await tab.getByRole('button', { name: 'Add' }).click()
    await tab.getByText(title).waitFor()
  }
  const titlesIn = (tab: Page) => tab.locator('#list span').allTextContents()

  test('two people – sign up, keep lists of their own, and see changes live', async () => {
    const [mia, ben] = [newUser(), newUser()]
    const [first, other] = [await app.signUp(mia), await app.signUp(ben)]
    await add(first, 'water the plants')
    await add(other, 'mend the roof')
    expect([await titlesIn(first), await titlesIn(other)]).toEqual([['water the plants'], ['mend the roof']])

    const device = await app.signIn(mia)
    await device.getByText('water the plants').waitFor()
    await device.getByLabel('Done: water the plants').check()
    await first.locator('.done', { hasText: 'water the plants' }).waitFor()
    await device.getByLabel('Delete: water the plants').click()
    await first.getByText('water the plants').waitFor({ state: 'detached' })
    expect(await titlesIn(other)).toEqual(['mend the roof'])

    await first.getByRole('button', { name: 'Sign out' }).click()
    await first.getByRole('button', { name: 'Sign in' }).waitFor()
    const stored = await call('GET', '/v1/collections/private_todos/documents', { as: workspace.service })
    expect(stored.body.data.map(({ title }: { title: string }) => title)).toEqual(['mend the roof'])
    const refused = await call('GET', '/v1/collections/private_todos/documents', { as: workspace.anon })
    // By the declaration, whatever the workspace's setting.
    expect([refused.status, refused.body.detail]).toEqual([
      ...[403, 'Anon keys may not read documents of private_todos.'],
    ])
  })

  test('access token that has expired – requests at the same time share one refresh', async () => {
    const tab = await app.signUp(newUser())
    await tab.getByLabel('New to-do').fill('sweep')
    expect(await sendTwiceWithExpiredToken(tab, '#add')).toBe(1)
    await tab.locator('#list li:nth-child(2)').waitFor()
    expect(await titlesIn(tab)).toEqual(['sweep', 'sweep'])
  })
})
