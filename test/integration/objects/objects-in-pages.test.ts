/** Links and public objects in a browser: a page of another site shows images, uploads by a form, and cannot be attacked by objects. */

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import {
  type ForeignSite,
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
  openForeignSite,
} from '../../support/clients/chromium.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { bucketOf, openToAnon } from '../../support/stack/workspace-settings.ts'

noticeWithoutChromium('links and public objects in pages')

const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"><script>document.title = "run"</script></svg>'

let workspace: TestWorkspace
let bucket: string
let site: ForeignSite
let browser: Browser
let page: Page
beforeAll(async () => {
  if (!hasChromium) return
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  await openToAnon(workspace, 'site/')
  await store('site/logo.svg', 'image/svg+xml', SVG)
  await store('own/chart.svg', 'image/svg+xml', SVG)
  site = await openForeignSite()
  browser = await launchChromium()
  page = await browser.newPage()
})
afterAll(async () => {
  await browser?.close()
  await site?.close()
})

const store = (key: string, type: string, body: string) =>
  call('PUT', `/v1/objects/${bucket}/${key}`, {
    as: workspace.service,
    body,
    headers: { 'content-type': type },
  })

const linkTo = async (body: object): Promise<string> =>
  (await call('POST', `/v1/buckets/${bucket}/presign`, { as: workspace.service, body })).body.url

/** Shows an image in a page of another site. @returns its width, 0 if it could not be loaded */
const widthOf = (url: string): Promise<number> =>
  page.evaluate(`new Promise((done) => {
    const image = new Image()
    image.onload = () => done(image.naturalWidth)
    image.onerror = () => done(0)
    image.src = ${JSON.stringify(url)}
  })`)

test.runIf(hasChromium)(
  'page of another site: shows a public image and the image of a link, and no other',
  async () => {
    const { url } = inject('tenon')
    await page.goto(site.origin)
    expect(await widthOf(`${url}/public/${bucket}/site/logo.svg`)).toBe(7)
    expect(await widthOf(await linkTo({ key: 'own/chart.svg' }))).toBe(7)
    expect(await widthOf(`${url}/public/${bucket}/own/chart.svg`)).toBe(0)
    const read = `fetch(${JSON.stringify(`${url}/public/${bucket}/site/logo.svg`)}).then((reply) => reply.text())`
    expect(await page.evaluate(read)).toBe(SVG)
  },
)

test.runIf(hasChromium)('form of a page of another site: uploads its file by a link', async () => {
  await page.goto(site.origin)
  const action = await linkTo({ key: 'own/form.txt', method: 'POST', content_type: 'text/plain' })
  await page.setContent(
    `<form action="${action}" method="post" enctype="multipart/form-data"><input type="file" name="file"><button>Send</button></form>`,
  )
  const file = { name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('from a form') }
  await page.locator('input').setInputFiles(file)
  const reply = page.waitForResponse(action)
  await page.locator('button').click()
  expect((await reply).status()).toBe(201)
  const stored = await call('GET', `/v1/objects/${bucket}/own/form.txt`, { as: workspace.service })
  expect(stored.body).toBe('from a form')
})

test.runIf(hasChromium)(
  'active content opened by its address: runs no script, and has no origin',
  async () => {
    const html = '<!doctype html><title>still</title><script>document.title = "run"</script>'
    await store('site/page.html', 'text/html', html)
    await store('own/page', 'application/octet-stream', html)
    const { url } = inject('tenon')
    for (const address of [
      `${url}/public/${bucket}/site/page.html`,
      await linkTo({ key: 'own/page', content_type: 'text/html' }),
      `${url}/public/${bucket}/site/logo.svg`,
    ]) {
      await page.goto(address)
      expect(await page.title()).not.toBe('run')
      expect(await page.evaluate('self.origin')).toBe('null')
    }
  },
)
