/** The example examples/court-booking, as its README sets it up, in Chromium and from another origin. */

import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { ExampleApp } from '../../support/clients/example-app.ts'
import { newUser } from '../../support/clients/users.ts'
import { type Caller, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('examples/court-booking')

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('court-booking', () => {
  let workspace: TestWorkspace
  let app: ExampleApp
  let [mia, ben, manager] = [] as unknown as [Page, Page, Page]

  beforeAll(async () => {
    workspace = await createTestWorkspace()
    app = await ExampleApp.start('court-booking', workspace)
    await app.setUpAgain()
    mia = await app.signUp(newUser())
    ben = await app.signUp(newUser())
    const kim = newUser()
    const tab = await app.signUp(kim)
    const { subject } = (await call('GET', '/v1/me', { as: await tokenIn(tab) })).body
    const claims = { role: 'manager' }
    const set = await call('PATCH', `/v1/users/${subject}`, { as: workspace.operator, body: { claims } })
    expect(set.status).toBe(200)
    manager = await app.signIn(kim)
  })
  afterAll(() => app?.close())

  async function tokenIn(tab: Page): Promise<Caller> {
    const [request] = await Promise.all([tab.waitForRequest(/\/v1\/collections\//), tab.reload()])
    return { authorization: (await request.allHeaders())['authorization'] ?? '' }
  }
  const venues = (tab: Page) => tab.locator('#venues h3').allTextContents()
  const courtIn = (tab: Page, name: string) => tab.getByRole('region', { name })
  async function book(tab: Page, court: string, start: string, hours = 1) {
    await courtIn(tab, court).getByLabel('Start').fill(start)
    await courtIn(tab, court).getByLabel('Hours').fill(String(hours))
    await courtIn(tab, court).getByRole('button', { name: 'Book' }).click()
  }
  const says = (tab: Page, text: string) => tab.locator('#status', { hasText: text }).waitFor()
  const nextYear = new Date().getUTCFullYear() + 1

  test('search – finds a venue whose name is misspelt, with its courts', async () => {
    await mia.getByRole('heading', { name: 'Riverside Club' }).waitFor()
    expect(await venues(mia)).toEqual(['Hillcrest Tennis', 'Riverside Club'])
    await mia.getByLabel('Name').fill('rivrsde')
    await mia.getByRole('button', { name: 'Search' }).click()
    await mia.getByRole('heading', { name: 'Hillcrest Tennis' }).waitFor({ state: 'detached' })
    expect(await venues(mia)).toEqual(['Riverside Club'])
    expect(await mia.locator('#venues h4').allTextContents()).toEqual([
      'Court 1, 24.50 euros an hour',
      'Court 2, 18.00 euros an hour',
    ])
  })

  test('two people and a manager – no court is booked twice, and the revenue of each day is right, live', async () => {
    await book(mia, 'Riverside Club, Court 1', `${nextYear}-06-01T10:00`, 2)
    await says(mia, 'Booked.')
    await book(ben, 'Riverside Club, Court 1', `${nextYear}-06-01T11:00`)
    await says(ben, 'The court is taken at that time.')
    await book(ben, 'Riverside Club, Court 1', `${nextYear}-06-01T12:00`)
    await says(ben, 'Booked.')
    await book(ben, 'Riverside Club, Court 2', `${nextYear}-06-02T10:00`)
    await book(mia, 'Riverside Club, Court 2', '2020-01-01T10:00')
    await says(mia, 'That hour has begun already.')

    await mia
      .locator('#bookings li', { hasText: 'Riverside Club, Court 1' })
      .filter({ hasText: '49.00 euros' })
      .waitFor()
    await ben.locator('#bookings li', { hasText: '18.00 euros' }).waitFor()
    expect(await mia.locator('#bookings li').count()).toBe(1)
    expect(await ben.locator('#bookings li').count()).toBe(2)
    await manager.locator('#revenue tr', { hasText: '73.50' }).waitFor()
    await manager.locator('#revenue tr', { hasText: '18.00' }).waitFor()
    expect(await manager.locator('#revenue tbody tr').allInnerTexts()).toEqual([
      `${nextYear}-06-01\t2\t73.50`,
      `${nextYear}-06-02\t1\t18.00`,
    ])

    await mia.getByRole('button', { name: /^Cancel / }).click()
    await manager.locator('#revenue tr', { hasText: '24.50' }).waitFor()
    await book(ben, 'Riverside Club, Court 1', `${nextYear}-06-01T10:00`, 2)
    await ben.locator('#bookings li', { hasText: '49.00 euros' }).waitFor()
  })

  test('many at once – one gets the hour', async () => {
    const { body: courts } = await call('GET', '/v1/collections/booking_courts/documents?name=eq.Court 1', {
      as: workspace.service,
    })
    const as = await tokenIn(ben)
    const hour = { starts_at: `${nextYear}-07-01T10:00:00Z`, ends_at: `${nextYear}-07-01T11:00:00Z` }
    const body = { court_id: courts.data[0].id, ...hour }
    const path = '/v1/collections/booking_bookings/documents'
    const replies = await Promise.all(Array.from({ length: 20 }, () => call('POST', path, { as, body })))
    expect(replies.map(({ status }) => status).toSorted()).toEqual([201, ...Array(19).fill(409)])
    const priced = await call('POST', path, {
      as,
      body: {
        ...body,
        starts_at: `${nextYear}-07-02T10:00:00Z`,
        ends_at: `${nextYear}-07-02T11:00:00Z`,
        price: '0.01',
      },
    })
    expect([priced.status, priced.body.code]).toEqual([403, 'forbidden'])
  })

  test('page – without faults that axe finds, also at the width of a phone', async () => {
    await manager.setViewportSize({ width: 390, height: 844 })
    await manager.evaluate(axe.source)
    const found = (await manager.evaluate('axe.run()')) as { violations: { id: string }[] }
    expect(found.violations.map(({ id }) => id)).toEqual([])
    expect(await manager.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  })
})
