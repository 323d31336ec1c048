/** The Temporal UI shows an operator tenant, flow, step and error without reading payloads. */

import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { hasChromium, launchChromium, noticeWithoutChromium } from '../../support/clients/chromium.ts'
import { Executions, type Shown } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

noticeWithoutChromium('reading the Temporal UI')

/** Folder for screenshots; none are taken without it. */
const SCREENSHOTS = process.env['SCREENSHOTS']
/** If rendered, it would load an image from another server. */
const REMOTE_IMAGE = '![a](http://lure.test/a)'
const CANARY = unique('canary')
/** Each reading lays out the whole page. */
const POLLING = { interval: 250 }

// A browser on a busy machine is slow.
describe.runIf(hasChromium)('the Temporal UI', () => {
  const ui = `${inject('tenon').env['TEMPORAL_UI_URL']}/namespaces/${inject('tenon').env['TEMPORAL_NAMESPACE'] ?? 'default'}/workflows`
  const closedPort = inject('tenon').echoPorts[6]
  let browser: Browser
  let page: Page
  let workspace: TestWorkspace
  let executions: Executions
  let done: Shown
  let waits: Shown
  let fails: Shown

  const start = async (name: string, tasks: string) =>
    executions.start(await executions.publish(tasks, { name }), { input: { x: CANARY } })

  beforeAll(async () => {
    workspace = await createTestWorkspace()
    executions = new Executions(workspace)
    const heard = 'listen: { to: { one: { with: { type: paid } } } }'
    const get = `call: http, with: { method: get, endpoint: 'http://127.0.0.1:${closedPort}/rates' }`
    const note =
      "call: collection.create, with: { name: notes, document: { x: '${ .x }' } }, metadata: { tenon: { local: false } }"
    done = await executions.ended(
      await start(
        'greet',
        `  - note: { ${note} }
  - '${REMOTE_IMAGE}': { ${note} }`,
      ),
    )
    waits = await executions.shown(
      await start(
        'pay',
        `  - both: { fork: { branches: [{ money: { ${heard} } }, { '${REMOTE_IMAGE}': { ${heard} } }] } }`,
      ),
      'waiting',
    )
    fails = await executions.ended(await start('fetch', `  - rates: { ${get} }`))
    browser = await launchChromium()
    page = await browser.newPage({ viewport: { width: 1_600, height: 1_100 }, reducedMotion: 'reduce' })
  })
  afterAll(async () => {
    await browser?.close()
  })

  const screenshot = async (name: string) => {
    if (SCREENSHOTS !== undefined) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) })
  }

  /** Opens a page of the UI and waits until it shows the text. @returns all texts shown, in frames too */
  async function openPage(name: string, path: string, text: string): Promise<string> {
    await page.goto(`${ui}${path}`)
    const shows = async () => {
      const texts = await Promise.all(page.frames().map((frame) => frame.innerText('body').catch(() => '')))
      return texts.join('\n')
    }
    await expect.poll(shows, POLLING).toContain(text)
    await screenshot(name)
    const all = await shows()
    expect(all).not.toContain(CANARY)
    return all
  }

  const of = ({ workflow_id }: Shown) => `/${encodeURIComponent(workflow_id)}`
  /** A tab of an execution. */
  async function tab(name: string, run: Shown, which: string, text: string): Promise<string> {
    const { runId } = await withRawClient(({ workflow }) => workflow.getHandle(run.workflow_id).describe())
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

  test('waiting execution: its compact history: the newest line says what it waits for', async () => {
    await page.evaluate("localStorage.setItem('eventView', JSON.stringify('compact'))")
    const compact = await tab('waiting-compact', waits, 'history', 'waits for money: listen to one of paid')
    expect(compact).toContain('subscribe for')
    await page.evaluate("localStorage.removeItem('eventView')")
  })

  test('first visit: the list has columns and views of operators; the page links to readable payloads', async () => {
    const list = await openPage('first-visit', search(`ExecutionId = "${waits.id}"`), 'waiting_for_event')
    for (const column of ['FlowName', 'RunStatus', 'Start', 'End', 'Workflow ID'])
      expect(list).toContain(column)
    await page.getByText('Unsaved view').click()
    await expect.poll(() => page.innerText('body'), POLLING).toContain('Failed, last hour')
    await screenshot('saved-views')
    await page.goto(`${ui}${of(waits)}`)
    await page.locator('a[href="/auth/payloads"]').first().waitFor()
    const { url } = await fetch(new URL('/auth/payloads', ui))
    expect(url).toBe(`${inject('tenon').url}/auth/payloads`)
  })

  test('completed execution: its page: result and calls', async () => {
    await tab('done-history', done, 'history', 'note: ')
    await tab('done-details', done, 'user-metadata', 'Completed.')
  })

  test('payload viewer: token entered, codec configured in the UI: payloads are readable', async () => {
    const { url } = inject('tenon')
    await page.goto(`${url}/auth/payloads`)
    await screenshot('payloads-asked')
    await page.fill('input[name=token]', workspace.operator['authorization']?.slice('Bearer '.length) ?? '')
    await page.click('button')
    await expect.poll(() => page.innerText('body')).toContain(`${url}/v1/codec`)
    await screenshot('payloads-may-be-read')
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
    await expect.poll(() => page.innerText('body'), POLLING).toContain(CANARY)
    await screenshot('payloads-read')
  })
})
