/** The client in Node, Deno and Chromium: the same suite in each, against the real platform. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { binary } from '../../../stack/binaries.mjs'
import {
  hasChromium,
  launchChromium,
  noticeWithoutChromium,
  openForeignSite,
} from '../../support/clients/chromium.ts'
import { runClientSuite, type SuiteOptions } from '../../support/clients/client-suite.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

noticeWithoutChromium('the client in a browser')

const STEPS = ['documents', 'queries', 'errors', 'live']

let ws: TestWorkspace
let dir: string
let bundle: string
const collection = unique('notes')
beforeAll(async () => {
  ws = await createTestWorkspace()
  dir = await mkdtemp(join(tmpdir(), 'tenon-client-'))
  const schema = { properties: { title: { type: 'string' }, n: { type: 'integer' } } }
  const access = { anon: { read: true, create: true, update: true, delete: true } }
  const body = { workspace_id: ws.workspaceId, collection, store: 'relational', schema, access }
  const { status, body: declared } = await call('POST', '/v1/schemas', { as: ws.operator, body })
  expect(status, JSON.stringify(declared)).toBe(201)
  bundle = await bundled('test/support/clients/client-suite.ts', 'runClientSuite')
})
afterAll(() => rm(dir, { recursive: true, force: true }))

/** A module as one text for browsers, that has its export in a variable. */
async function bundled(entry: string, name: string, minify = false): Promise<string> {
  const { outputFiles } = await build({
    ...{
      entryPoints: [entry],
      bundle: true,
      write: false,
      minify,
      format: 'esm',
      target: 'es2022',
      platform: 'browser',
    },
    footer: { js: `globalThis.${name} = ${name}` },
  })
  return outputFiles[0]?.text ?? ''
}

const optionsFor = (mark: string): SuiteOptions => ({
  ...{ url: inject('tenon').url, apikey: ws.anon['apikey'] ?? '', collection, mark },
})

test('Node runs the suite', async () => {
  expect(await runClientSuite(optionsFor('node'))).toEqual(STEPS)
})

test('Deno runs the suite, with no right but the network', async () => {
  const file = join(dir, 'suite.js')
  await writeFile(
    file,
    `${bundle}\nconsole.log(JSON.stringify(await runClientSuite(${JSON.stringify(optionsFor('deno'))})))`,
  )
  const { stdout } = await promisify(execFile)(await binary('deno'), [
    'run',
    '--no-prompt',
    '--allow-net',
    file,
  ])
  expect(JSON.parse(stdout)).toEqual(STEPS)
})

test.runIf(hasChromium)('Chromium runs the suite in a page of another origin', async () => {
  const [browser, site] = [await launchChromium(), await openForeignSite()]
  try {
    const page = await browser.newPage()
    await page.goto(site.origin)
    await page.addScriptTag({ content: bundle, type: 'module' })
    await page.waitForFunction('globalThis.runClientSuite !== undefined')
    const run = `globalThis.runClientSuite(${JSON.stringify(optionsFor('chromium'))})`
    expect(await page.evaluate(run)).toEqual(STEPS)
  } finally {
    await browser.close()
    await site.close()
  }
})

test('the client without sign-in has at most 12 kB, compressed', async () => {
  const { outputFiles } = await build({
    ...{
      entryPoints: ['client/src/index.ts'],
      bundle: true,
      write: false,
      minify: true,
      format: 'esm',
      target: 'es2022',
    },
  })
  expect(gzipSync(outputFiles[0]?.contents ?? '').length).toBeLessThanOrEqual(12 * 1_024)
})
