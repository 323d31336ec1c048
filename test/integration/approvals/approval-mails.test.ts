// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Mails to approvers through an SMTP server: while it is down, refused recipients, and texts that try to add headers. */

import { afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { createTaskContexts } from '../../../src/activities/flow/background-work.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { approvalMails } from '../../../src/features/flows/approvals/approval-mailer.ts'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { addAccount, type TestAccount } from '../../support/clients/browser.ts'
import { mailTo } from '../../support/clients/mails.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type ReceivedMail, SmtpServer } from '../../support/servers/smtp-server.ts'

let workspace: TestWorkspace
let executions: Executions
let smtp: SmtpServer
let platform: Platform
let lines: string[]
let mia: TestAccount
let leo: TestAccount

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  mia = await addAccount(workspace.operator, { role: 'service', ...place })
  leo = await addAccount(workspace.operator, { role: 'service', ...place })
})

beforeEach(async () => {
  smtp = await SmtpServer.open()
  lines = []
  const config = parseConfig({ ...inject('tenon').env, SMTP_URL: `smtp://127.0.0.1:${smtp.port}` })
  const log = openLog('error', 'test', { write: (line: string) => void lines.push(line) })
  platform = openPlatform(config, log).platform
})
afterEach(async () => {
  await platform.close()
  await smtp.close()
})

/** Asks these approvers, and waits until the worker has written the first mail of one of them into its folder. */
async function ask(approvers: readonly string[], title = unique('Pay'), first = approvers[0] ?? '') {
  // With reminders, another mail is due in an hour, which the test sends earlier.
  const task = { board: { approve: { title, approvers, remind: { every: 'PT1H' } } } }
  const run = await executions.start(await executions.publish(`  - ${JSON.stringify(task)}`))
  await mailTo(first, title.slice(0, 8))
  const execution = await executions.until(run, ({ approvals }) => approvals !== undefined)
  const id = execution.approvals[0].id as string
  // The worker has mailed all of them.
  await eventually(async () => {
    const [row] = await asSuperuser('select from tenon.approvals where id = $1 and mails_sent > 0', [id])
    return row
  })
  return { run, id }
}

/** Sends the next mails of an approval, as the worker does when they are due. */
async function send(approvalId: string): Promise<void> {
  const { tenantId, workspaceId } = workspace
  const ref = { tenantId: tenantId as TenantId, workspaceId: workspaceId as WorkspaceId }
  const context = await createTaskContexts(platform.access)(ref)
  await approvalMails(platform.mailer).run(context, approvalId)
}

/** A header of a mail, unfolded. */
function header(mail: ReceivedMail | undefined, name: string): string | undefined {
  const [head = ''] = mail?.data.split('\r\n\r\n') ?? []
  return new RegExp(`^${name}: (.*)`, 'im').exec(head.replaceAll(/\r\n[ \t]+/g, ' '))?.[1]
}

test('server down for a while: the mails arrive once it is up, one for each approver', async () => {
  const { id } = await ask([mia.email, leo.email])
  await send(id)
  expect(smtp.mails).toHaveLength(2)
  const { port } = smtp
  await smtp.close()
  await expect(send(id)).rejects.toThrow(/ECONNREFUSED/)
  smtp = await SmtpServer.open(port)
  await send(id)
  expect(smtp.mails.map(({ to }) => to).sort()).toEqual([[leo.email], [mia.email]].sort())
  const [mail] = smtp.mailsTo(mia.email)
  expect(mail?.data).toMatch(/\/approvals\?token=/)
  expect(header(mail, 'message-id')).toMatch(new RegExp(`^<${id}\\.1\\.2\\.`))
})

test('recipient refused for good: logged, the others get theirs, once', async () => {
  const deletedAddress = `${unique('gone')}@example.test`
  const { id } = await ask([deletedAddress, mia.email, leo.email])
  smtp.replies.set(deletedAddress, '550 5.1.1 no such person')
  await send(id)
  expect(smtp.mails.flatMap(({ to }) => to).sort()).toEqual([mia.email, leo.email].sort())
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    {
      msg: 'approval mail refused',
      err: { response: '550 5.1.1 no such person', rejected: [deletedAddress] },
    },
  ])
})

test('recipient refused for now: gets the mail later; the others no second one', async () => {
  const [slow, ...rest] = [`${unique('slow')}@example.test`, mia.email, leo.email]
  const { id } = await ask([slow ?? '', ...rest])
  smtp.replies.set(slow ?? '', '451 4.7.1 come back later')
  await send(id)
  expect(smtp.mails.flatMap(({ to }) => to).sort()).toEqual(rest.sort())
  smtp.replies.clear()
  await send(id)
  expect(smtp.mails.flatMap(({ to }) => to).sort()).toEqual([...rest, slow].sort())
})

test('recipient refused again and again: given up after some tries, so that the others are reminded', async () => {
  const full = `${unique('full')}@example.test`
  const { id } = await ask([full, mia.email])
  smtp.replies.set(full, '452 4.2.2 mailbox full')
  for (let tries = 0; tries <= FLOW_LIMITS.approvals.mailAttemptsMax; tries += 1) await send(id)
  expect(smtp.mails).toHaveLength(1)
  smtp.replies.clear()
  await send(id)
  expect(smtp.mails.map(({ to }) => to[0]).sort()).toEqual([full, mia.email, mia.email].sort())
})

test('title with line breaks, address with a comma or brackets: no header, no recipient is added', async () => {
  const evil = `victim@example.test,evil@example.test`
  const brackets = `${unique('a')}>@example.test`
  const id = (
    await ask([mia.email, evil, brackets], `${unique('Pay')}\r\nBcc: evil@example.test\r\n\r\nHello`)
  ).id
  await send(id)
  const [mail] = smtp.mailsTo(mia.email)
  expect(header(mail, 'bcc')).toBeUndefined()
  expect(header(mail, 'subject')).toMatch(/^Reminder: Pay\S* Bcc: evil@example\.test Hello$/)
  expect(header(mail, 'to')).toBe(mia.email)
  const recipients = smtp.commands.filter((line) => line.startsWith('RCPT'))
  expect(recipients.filter((line) => /<(evil|victim)@example\.test>/.test(line))).toEqual([])
  expect(smtp.mails.flatMap(({ to }) => to)).not.toContain('evil@example.test')
})

test('suspended workspace: its approvals are not taken, so that those of others are; they are mailed once it is resumed', async () => {
  const { id } = await ask([mia.email])
  const other = await createTestWorkspace()
  const theirs = new Executions(other)
  const approve = { approve: { title: unique('Pay'), approvers: [leo.email], remind: { every: 'PT1H' } } }
  const run = await theirs.start(await theirs.publish(`  - ${JSON.stringify({ board: approve })}`))
  const [approval] = (await theirs.until(run, ({ approvals }) => approvals !== undefined)).approvals
  const both = [id, approval.id]
  const dueIn = async (approvalId: string) => {
    const [row] = await asSuperuser<{ ms: number }>(
      `select extract(epoch from mail_due_at - now())::double precision * 1000 as ms from tenon.approvals
        where id = $1`,
      [approvalId],
    )
    return row?.ms ?? 0
  }
  await eventually(async () => ((await dueIn(approval.id)) > 1_000_000 ? true : undefined))
  await suspendWorkspace(workspace, workspace.operator)
  // One look takes both, if it takes the first.
  await asSuperuser('update tenon.approvals set mail_due_at = now() where id = any($1)', [both])
  await eventually(async () => ((await dueIn(approval.id)) > 0 ? true : undefined))
  expect(await dueIn(id)).toBeLessThan(0)
  await resumeWorkspace(workspace, workspace.operator)
  await eventually(async () => ((await dueIn(id)) > 0 ? true : undefined))
})
