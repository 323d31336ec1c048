/** The site of the documentation in Chromium: on a phone, light and dark, with its search, without an error of its security policy. */

import { describe, expect, inject, test } from 'vitest'
import { currentSite } from '../../../src/cli/stack/site.ts'
import {
  expectAccessible,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
} from '../../support/clients/chromium.ts'

noticeWithoutChromium('pages of the documentation')

/** The first page, prose with wide tables, long code, an index of the API, an operation with deep fields. */
const PAGES = [
  '',
  'queries',
  'users',
  'reference/config',
  'api/',
  'api/flows',
  'api/flow-create',
  'api/collection-list',
]

describe.runIf(hasChromium)('in Chromium', () => {
  test.each(['light', 'dark'] as const)(
    '%s: pages fit a phone, and axe finds nothing',
    async (colorScheme) => {
      await currentSite()
      const browser = await launchChromium()
      try {
        const page = await browser.newPage({ viewport: { width: 360, height: 740 }, colorScheme })
        const errors: string[] = []
        page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
        for (const path of PAGES) {
          await page.goto(`${inject('tenon').url}/docs/${path}`)
          expect([path, await page.locator('h1').count()]).toEqual([path, 1])
          await expectAccessible(page)
        }
        // The tool for accessibility is put into the page, which the policy allows to debuggers alone.
        expect(errors).toEqual([])
      } finally {
        await browser.close()
      }
    },
  )

  test('search: finds a section by a word of it, and leads there', async () => {
    await currentSite()
    const browser = await launchChromium()
    try {
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
      await page.goto(`${inject('tenon').url}/docs/api/collection-list`)
      await page.keyboard.press('/')
      await page.keyboard.type('live quer')
      const result = page.getByRole('link', { name: /^Live queries/ }).first()
      await result.click()
      await page.waitForURL('**/docs/events.html#live-queries')
      await page.getByRole('button', { name: 'Copy' }).first().waitFor()
    } finally {
      await browser.close()
    }
  })
})
