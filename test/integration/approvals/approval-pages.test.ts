// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The page of an approval, opened by the link in a mail: sign-in, decision, and links that are forged, forwarded or over. */

import { get } from 'node:http'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { addAccount, Browser, type Seen, type TestAccount } from '../../support/clients/browser.ts'
import { mailsTo, mailTo } from '../../support/clients/mails.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
let mia: TestAccount
let leo: TestAccount

const FORM =
  "form: { type: object, properties: { reason: { type: string, minLength: 3, title: 'Why?' }, sum: { type: integer } }, required: [reason] }"

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  mia = await addAccount(workspace.operator, { role: 'service', ...place })
  leo = await addAccount(workspace.operator, { role: 'service', ...place })
})

async function ask(approve: string, input: object = {}): Promise<{ run: string; title: string }> {
  const title = unique('Pay')
  const flow = await executions.publish(`  - board: { approve: { title: ${title}, ${approve} } }`)
  return { run: await executions.start(flow, { input }), title }
}

/** The status of a request with another `Host`, as after DNS rebinding. */
const statusUnder = (host: string, url: string) =>
  new Promise<number | undefined>((done, fail) => {
    get(url, { headers: { host } }, (response) => {
      response.resume()
      done(response.statusCode)
    }).once('error', fail)
  })

const signIn = (browser: Browser, page: Seen, { password }: TestAccount) =>
  browser.submit(page, { action: 'sign_in', password })

describe('link in a mail', () => {
  test('to an account: asks to sign in, shows title, data and form, records who decided', async () => {
    const { run, title } = await ask(`approvers: ['${mia.email}'], deadline: P1D, ${FORM}`, {
      note: '<script>alert(1)</script>',
    })
    const { link, messageId } = await mailTo(mia.email, title)
    expect(messageId).toMatch(/^<apr_.*@/)
    const browser = new Browser('nowhere:')
    const first = await browser.open(link)
    expect([first.status, first.html]).toEqual([
      200,
      expect.stringContaining(`This link is for <b>${mia.email}`),
    ])
    expect(first.html).not.toContain(title)
    expect(first.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect((await browser.submit(first, { action: 'approve', 'form.reason': 'fine' })).status).toBe(200)
    expect((await signIn(browser, first, { ...mia, password: 'wrong' })).status).toBe(401)
    const page = await signIn(browser, first, mia)
    expect([page.status, page.html]).toEqual([
      200,
      expect.stringContaining('<label for="field-0">Why?</label>'),
    ])
    expect(page.html).toContain(title)
    expect(page.html).toMatch(/<p class="brand">[^<]+<\/p>/)
    expect(page.html).toMatch(/of the workspace [^<]+ asks for your decision/)
    expect(page.html).toMatch(/value="approve">Approve<.*class="reject"[^>]*>Reject</s)
    expect(page.html).toContain('&lt;script&gt;')
    expect((await browser.open(link)).html).toBe(page.html)
    const short = await browser.submit(page, { action: 'approve', 'form.reason': 'x', comment: 'mine' })
    expect([short.status, short.html]).toEqual([409, expect.stringMatching(/role="alert".*mine/s)])
    const done = await browser.submit(page, { action: 'approve', 'form.reason': 'fine', 'form.sum': '3' })
    expect([done.status, done.html]).toEqual([200, expect.stringContaining(`Approved by ${mia.email}`)])
    const { output } = await executions.ended(run)
    expect(output.decisions).toMatchObject([{ by: mia.id, as: mia.email, form: { reason: 'fine', sum: 3 } }])
    expect((await browser.open(link)).status).toBe(200)
    expect((await browser.submit(page, { action: 'reject' })).status).toBe(409)
  })

  test('forwarded to another account: refused, says for whom it is', async () => {
    const { run, title } = await ask(`approvers: ['${mia.email}', '${leo.email}']`)
    const [link, own] = [(await mailTo(mia.email, title)).link, (await mailTo(leo.email, title)).link]
    const browser = new Browser('nowhere:')
    await signIn(browser, await browser.open(own), leo)
    const page = await browser.open(link)
    expect([page.status, page.html]).toEqual([403, expect.stringContaining(mia.email)])
    expect(page.html).not.toContain(title)
    expect((await browser.submit(page, { action: 'approve' })).status).toBe(403)
    expect((await executions.read(run)).approvals[0].decisions).toEqual([])
    const confirmation = await browser.submit(page, { action: 'leave' })
    expect(confirmation.html).toContain('Sign in')
  })

  test('to an address without an account: decides by the link alone', async () => {
    const email = `${unique('ext')}@example.test`
    const { run, title } = await ask(`approvers: ['${email}'], onReject: continue`)
    const { link } = await mailTo(email, title)
    const browser = new Browser('nowhere:')
    const done = await browser.submit(await browser.open(link), { action: 'reject', comment: 'too much' })
    expect([done.status, done.html]).toEqual([200, expect.stringContaining('too much')])
    expect((await executions.ended(run)).output.decisions).toMatchObject([{ by: email, approved: false }])
  })

  test('opened twice, and answered from both at the same time: one decision counts, both see it', async () => {
    const email = `${unique('twice')}@example.test`
    const { run, title } = await ask(`approvers: ['${email}'], onReject: continue`)
    const { link } = await mailTo(email, title)
    const browsers = ['approve', 'reject'].map((action) => ({ action, browser: new Browser('nowhere:') }))
    const answers = await Promise.all(
      browsers.map(async ({ action, browser }) => browser.submit(await browser.open(link), { action })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
    const { output } = await executions.ended(run)
    expect(output.decisions).toHaveLength(1)
    expect(output.approved).toBe(answers[0]?.status === 200)
    for (const { browser } of browsers)
      expect((await browser.open(link)).html).toContain(output.approved ? 'Approved by' : 'Rejected by')
  })

  test('forged or cut: 404', async () => {
    const { title } = await ask(`approvers: ['${mia.email}']`)
    const { link } = await mailTo(mia.email, title)
    const browser = new Browser('nowhere:')
    const [path = '', token = ''] = link.split('?token=')
    const [signed = '', mac = ''] = token.split('.')
    const claims = JSON.parse(Buffer.from(signed, 'base64url').toString())
    const forge = (change: (claims: unknown[]) => void) => {
      const forged = [...claims]
      change(forged)
      return `${Buffer.from(JSON.stringify(forged)).toString('base64url')}.${mac}`
    }
    const other = await createTestWorkspace()
    const tokens = [
      '',
      'x',
      signed,
      `${signed}.`,
      `${signed}.${mac.slice(1)}x`,
      `${token}.`,
      `${token}.${token}`,
      forge((all) => {
        all[4] = leo.id
      }),
      forge((all) => {
        all[5] = Date.now() + 1e12
      }),
      forge((all) => {
        all[0] = other.tenantId
        all[1] = other.workspaceId
      }),
      Buffer.from('[]').toString('base64url'),
      Buffer.from('null').toString('base64url'),
    ]
    for (const one of tokens)
      expect([one, (await browser.open(`${path}?token=${one}`)).status]).toEqual([one, 404])
  })

  test('after the deadline of an execution that is paused: 410, since its approval is still open', async () => {
    const email = `${unique('over')}@example.test`
    const { run, title } = await ask(`approvers: ['${email}'], deadline: PT3S`)
    const { link } = await mailTo(email, title)
    expect((await executions.send(run, 'pause')).status).toBe(200)
    const browser = new Browser('nowhere:')
    const page = await eventually(async () => {
      const seen = await browser.open(link)
      return seen.status === 410 ? seen : undefined
    })
    expect(page.html).toContain('This link has expired')
    expect((await browser.submit(page, { action: 'approve' })).status).toBe(410)
    expect((await executions.read(run)).approvals[0].decisions).toEqual([])
  })

  test('after the deadline: the outcome', async () => {
    const email = `${unique('late')}@example.test`
    const { run, title } = await ask(`approvers: ['${email}'], deadline: PT4S, onDeadline: reject`)
    const { link } = await mailTo(email, title)
    await executions.ended(run)
    const page = await new Browser('nowhere:').open(link)
    expect([page.status, page.html]).toEqual([200, expect.stringContaining('expired')])
    expect((await new Browser('nowhere:').submit(page, { action: 'approve' })).status).toBe(409)
  })

  test('form of another site: refused', async () => {
    const email = `${unique('csrf')}@example.test`
    const { title } = await ask(`approvers: ['${email}']`)
    const { link } = await mailTo(email, title)
    const browser = new Browser('nowhere:')
    const sent = await browser.submit(
      await browser.open(link),
      { action: 'approve' },
      { origin: 'http://evil.test' },
    )
    expect(sent.status).toBe(403)
  })
})

describe('mails', () => {
  test('reminders: repeat until the decision; not to those who have decided', async () => {
    const [one, two] = [`${unique('a')}@example.test`, `${unique('b')}@example.test`]
    const { run, title } = await ask(`approvers: ['${one}', '${two}'], quorum: 2, remind: { every: PT1S }`)
    const { link } = await mailTo(one, title)
    const browser = new Browser('nowhere:')
    await browser.submit(await browser.open(link), { action: 'approve' })
    const before = (await mailsTo(one, title)).length
    await eventually(async () => ((await mailsTo(two, `Reminder: ${title}`)).length >= 2 ? true : undefined))
    expect((await mailsTo(one, title)).length).toBeLessThanOrEqual(before + 1)
    const { link: other } = await mailTo(two, title)
    await browser.submit(await browser.open(other), { action: 'approve' })
    await executions.shown(run, 'completed')
  })

  test('group, role: a mail to each account, none to the person who started the run', async () => {
    await call('PATCH', `/v1/accounts/${leo.id}`, { as: workspace.operator, body: { groups: ['board'] } })
    const { title } = await ask(`approvers: ['group:board']`)
    expect((await mailTo(leo.email, title)).link).toContain('/approvals?token=')
    expect(await mailsTo(mia.email, title)).toEqual([])
  })

  test('loopback page: shows the mails; not under another name', async () => {
    const email = `${unique('dev')}@example.test`
    const { title } = await ask(`approvers: ['${email}']`)
    await mailTo(email, title)
    const { url } = inject('tenon')
    const page = await fetch(`${url}/dev/mail`)
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining(email)])
    expect(await statusUnder('evil.test', `${url}/dev/mail`)).toBe(404)
  })
})
