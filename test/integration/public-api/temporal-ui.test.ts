/** The Temporal UI shows an operator tenant, flow, step and error without reading payloads. */

import { existsSync } from 'node:fs'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Runs, type Shown } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const hasChromium = existsSync(CHROMIUM)
if (!hasChromium)
  console.log(`Nobody looks at the Temporal UI: there is no Chromium at ${CHROMIUM} (CHROMIUM=…).`)

/** If rendered, it would load an image from another server. */
const REMOTE_IMAGE = '![a](http://lure.test/a)'
const CANARY = unique('canary')

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('the Temporal UI', { timeout: 120_000 }, () => {
  const ui = `${inject('tenon').env['TEMPORAL_UI_URL']}/namespaces/${inject('tenon').env['TEMPORAL_NAMESPACE'] ?? 'default'}/workflows`
  const closedPort = inject('tenon').echoPorts[6]
  let browser: Browser
  let page: Page
  let folder: string
  let workspace: TestWorkspace
  let runs: Runs
  let done: Shown
  let waits: Shown
  let fails: Shown

  const start = async (name: string, tasks: string) =>
    runs.start(await runs.publish(tasks, { name }), { input: { x: CANARY } })

  beforeAll(async () => {
    // Set this to keep the screenshots.
    folder = process.env['SCREENSHOTS'] ?? (await mkdtemp(join(tmpdir(), 'tenon-ui-')))
    await mkdir(folder, { recursive: true })
    workspace = await createTestWorkspace()
    runs = new Runs(workspace)
    const heard = 'listen: { to: { one: { with: { type: paid } } } }'
    const get = `call: http, with: { method: get, endpoint: 'http://127.0.0.1:${closedPort}/rates' }`
    const note =
      "call: collection.create, with: { name: notes, document: { x: '${ .x }' } }, metadata: { tenon: { local: false } }"
    done = await runs.ended(
      await start(
        'greet',
        `  - note: { ${note} }
  - '${REMOTE_IMAGE}': { ${note} }`,
      ),
    )
    waits = await runs.shown(
      await start(
        'pay',
        `  - both: { fork: { branches: [{ money: { ${heard} } }, { '${REMOTE_IMAGE}': { ${heard} } }] } }`,
      ),
      'waiting',
    )
    fails = await runs.ended(await start('fetch', `  - rates: { ${get} }`))
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
    page = await browser.newPage({ viewport: { width: 1_600, height: 1_100 } })
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
  })

  /** Opens a page of the UI and waits until it shows the text. @returns all texts shown, in frames too */
  async function openPage(name: string, path: string, text: string): Promise<string> {
    await page.goto(`${ui}${path}`)
    const shows = async () => {
      const texts = await Promise.all(page.frames().map((frame) => frame.innerText('body').catch(() => '')))
      return texts.join('\n')
    }
    await expect.poll(shows, { timeout: 40_000 }).toContain(text)
    await page.screenshot({ path: join(folder, `${name}.png`) })
    const all = await shows()
    expect(all).not.toContain(CANARY)
    return all
  }

  const of = ({ workflow_id }: Shown) => `/${encodeURIComponent(workflow_id)}`
  /** A tab of an execution. */
  async function tab(name: string, run: Shown, which: string, text: string): Promise<string> {
    await page.goto(`${ui}${of(run)}`)
    await page.waitForURL(/\/[0-9a-f-]{36}\//)
    const [, runId] = /\/([0-9a-f-]{36})\/[^/]*$/.exec(page.url()) ?? []
    return openPage(name, `${of(run)}/${runId}/${which}`, text)
  }
  const search = (query: string) => `?query=${encodeURIComponent(query)}`

  test('workflow list: executions of a tenant: found, failed ones by the kind of error', async () => {
    const ownFilter = `TenantId="${workspace.tenantId}" AND WorkspaceId="${workspace.workspaceId}"`
    const all = await openPage('list', search(ownFilter), fails.workflow_id)
    for (const { workflow_id } of [done, waits, fails]) expect(all).toContain(workflow_id)
    const failed = await openPage(
      'list-failed',
      search(`${ownFilter} AND ErrorType="communication"`),
      fails.workflow_id,
    )
    for (const { workflow_id } of [done, waits]) expect(failed).not.toContain(workflow_id)
  })

  test('failed execution: its page: flow, location and kind of error', async () => {
    const error = 'communication (502) at /do/0/rates'
    await openPage('failed', of(fails), error)
    const history = await tab('failed-history', fails, 'history', 'Flow fetch v1')
    expect(history).toContain(error)
    expect(history).toContain('rates: GET http://127.0.0.1')
    await tab('failed-attributes', fails, 'search-attributes', '"ErrorType": "communication"')
    const details = await tab('failed-details', fails, 'user-metadata', `Failed: ${error}`)
    expect(details).toContain(`fetch v1, execution ${fails.id}`)
  })

  test('waiting execution: its page: what each branch waits for', async () => {
    const details = await tab('waiting-details', waits, 'user-metadata', 'Now at')
    expect(details).toContain(`pay v1, execution ${waits.id}`)
    expect(details).toContain('/do/0/both/fork/branches/0/money')
    expect(details).toContain(`: ${REMOTE_IMAGE}: listen to one of paid`)
    expect(details).toContain('Flow pay v1')
  })

  test('completed execution: its page: result and calls', async () => {
    await tab('done-history', done, 'history', 'note: ')
    await tab('done-details', done, 'user-metadata', 'Completed.')
  })

  test('payload viewer: token entered, codec configured in the UI: payloads are readable', async () => {
    const { url } = inject('tenon')
    await page.goto(`${url}/auth/payloads`)
    await page.screenshot({ path: join(folder, 'payloads-asked.png') })
    await page.fill('input[name=token]', workspace.operator['authorization']?.slice('Bearer '.length) ?? '')
    await page.click('button')
    await expect.poll(() => page.innerText('body')).toContain(`${url}/v1/codec`)
    await page.screenshot({ path: join(folder, 'payloads-may-be-read.png') })
    await page.goto(`${ui}${of(done)}`)
    const settings = {
      endpoint: `${url}/v1/codec`,
      includeCredentials: true,
      overrideRemoteCodecConfiguration: true,
    }
    // As the UI's settings form stores them.
    const keep = Object.entries(settings).map(
      ([name, value]) => `localStorage.${name} = '${JSON.stringify(value)}'`,
    )
    await page.evaluate(keep.join('\n'))
    await page.goto(`${ui}${of(done)}`)
    await expect.poll(() => page.innerText('body'), { timeout: 40_000 }).toContain(CANARY)
    await page.screenshot({ path: join(folder, 'payloads-read.png') })
  })
})
