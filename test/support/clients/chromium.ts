/** Runs Chromium with pages of a foreign site whose name resolves to this machine. */

import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

export const hasChromium = existsSync(CHROMIUM)

/** @param purpose test that is skipped without Chromium, for the reason that is printed */
export function noticeWithoutChromium(purpose: string): void {
  if (!hasChromium) console.log(`Skipped: ${purpose}. There is no Chromium at ${CHROMIUM} (set CHROMIUM).`)
}

/** Every name below `.test` resolves to this machine, as after DNS rebinding by an attacker. */
export function launchChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM,
    // Without a graphics card, drawing by an emulated one takes more time of the processor than all scripts.
    args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP *.test 127.0.0.1'],
  })
}

/** Runs axe with all of its rules, and checks that the page fits a phone. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axe.source)
  const { violations } = (await page.evaluate('axe.run()')) as {
    violations: { id: string; nodes: { html: string }[] }[]
  }
  expect(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])).toEqual([])
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
}

export interface ForeignSite {
  readonly origin: string
  close(): Promise<void>
}

/** Serves an empty page of an unrelated site. */
export async function openForeignSite(): Promise<ForeignSite> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>foreign</title>')
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://evil.test:${port}`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed())
        server.closeAllConnections()
      }),
  }
}

export interface PageRequest {
  readonly url: string
  readonly method?: string
  readonly mode?: 'cors' | 'no-cors'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Sends `body` as a file of a form, which needs no preflight. */
  readonly asForm?: boolean
}

/** Sends requests from a page. @returns what the page may read of each reply: empty if nothing */
export function fetchFrom(page: Page, requests: readonly PageRequest[]): Promise<string[]> {
  return page.evaluate(`Promise.all(${JSON.stringify(requests)}.map(async ({ url, asForm, body, ...init }) => {
    const form = new FormData()
    form.append('file', new Blob([body ?? '']), 'plan.txt')
    const content = asForm ? form : body
    const signal = AbortSignal.timeout(5_000)
    return fetch(url, { ...init, body: content, signal }).then((response) => response.text()).catch(() => '')
  }))`)
}

/** Loads addresses as images, which browsers permit for every page. */
export async function showImages(page: Page, urls: readonly string[]): Promise<void> {
  await page.evaluate(`Promise.all(${JSON.stringify(urls)}.map((url) => new Promise((done) => {
    const image = new Image()
    image.onload = image.onerror = done
    setTimeout(done, 5_000)
    image.src = url
  })))`)
}
