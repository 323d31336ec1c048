// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** `tenon approval` commands, run by an admin and by an approver without an admin role. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { addAccount, type TestAccount } from '../../support/clients/browser.ts'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace, tokenOf } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
let folder: string
let mia: TestAccount
/** The environment of an operator, and that of an approver with the role `service`. */
let operator: NodeJS.ProcessEnv
let approver: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-approvals-'))
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  mia = await addAccount(workspace.operator, { role: 'service', ...place })
  const { authorization = '' } = await tokenOf({ sub: mia.id, roles: ['service'], ...place })
  operator = operatorEnv(workspace)
  const token = authorization.replace('Bearer ', '')
  approver = { ...operator, TENON_TOKEN: token, TENON_CLIENT_ID: '', TENON_CLIENT_SECRET: '' }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Runs a command in this environment, with this standard input. */
const tenon = (env: NodeJS.ProcessEnv, args: readonly string[], input = '') =>
  runCommand(['approval', ...args], { env, callerDir: folder, input })

async function ask(tasks: string, input: object = {}): Promise<string> {
  const run = await executions.start(await executions.publish(tasks), { input })
  await executions.until(run, ({ approvals }) => approvals !== undefined)
  return run
}

const FORM = 'form: { type: object, properties: { reason: { type: string } }, required: [reason] }'

test('approver without an admin role: lists, shows and approves with form and comment', async () => {
  const run = await ask(
    `  - board: { approve: { title: '\${ "Pay \\(.sum)?" }', approvers: ['${mia.email}'], deadline: P1D, ${FORM} } }`,
    { sum: 40 },
  )
  const other = await ask('  - board: { approve: { approvers: [ada] } }')
  const mine = await tenon(approver, ['list', '--mine'])
  expect([mine.code, mine.stdout.split('\n')[0]]).toEqual([
    0,
    expect.stringMatching(/^APPROVAL +TITLE +UNTIL +EXECUTION AND STEP$/),
  ])
  expect(mine.stdout).toMatch(new RegExp(`^apr_\\w+ +Pay 40\\? +20\\S+ \\S+ +${run} board$`, 'm'))
  expect(mine.stdout).not.toContain(other)
  expect((await tenon(approver, ['list'])).stdout).toContain(other)
  const output = await tenon(approver, ['show', run, 'board'])
  // Whoever is asked sees what it is about.
  expect(output.stdout).toMatch(/^Pay 40\?\n {2}approval +apr_\w+\n {2}step +board of /)
  expect(output.stdout).toContain(`${mia.email}; 1 must approve`)
  expect(output.stdout).toMatch(/^ {2}data +\{\n +"sum": 40\n +\}$/m)
  const seen = await tenon(operator, ['show', run, 'board'])
  expect(seen.stdout).toMatch(/^Pay 40\?\n/)
  expect(seen.stdout).toMatch(/^ {2}data +\{\n +"sum": 40\n +\}$/m)
  const incomplete = await tenon(approver, ['approve', run])
  expect(incomplete).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/state_conflict: .*form.*reason/),
  })
  await writeFile(join(folder, 'form.yaml'), 'reason: fine\n')
  const done = await tenon(approver, ['approve', run, 'board', '--data', '@form.yaml', '--comment', 'ok'])
  expect([done.code, done.stdout]).toEqual([0, expect.stringMatching(/^apr_\w+ approved\n$/)])
  const [id = ''] = done.stdout.split(' ')
  expect((await tenon(operator, ['show', id])).stdout).toMatch(
    new RegExp(`decision +approved by ${mia.id} as ${mia.email} at .*\\{"reason":"fine"\\}: ok$`, 'm'),
  )
  const again = await tenon(approver, ['approve', run])
  expect(again).toMatchObject({ code: 1, stderr: `${run} waits for no approval.\n` })
  const late = await tenon(approver, ['reject', id])
  expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('The approval is approved.') })
})

test('admin: rejects with a form from stdin; several open approvals: has to name one', async () => {
  const { clientId } = inject('tenon')
  const one = (name: string) =>
    `        - ${name}: { approve: { approvers: ['${clientId}', '${mia.email}'], fourEyes: false, quorum: 2, onReject: continue, form: { type: object } } }`
  const run = await ask(`  - both:\n      fork:\n        branches:\n${one('legal')}\n${one('finance')}`)
  const open = await executions.until(run, ({ approvals }) => approvals?.length === 2)
  const [legal] = open.approvals.filter(({ step }: { step: string }) => step === 'legal')
  const vague = await tenon(operator, ['approve', run])
  expect(vague).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/several approvals: .*legal \(apr_.*Name one/),
  })
  const unknown = await tenon(operator, ['approve', run, 'sales'])
  expect(unknown).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/no approval sales; it waits for .*finance/),
  })
  const first = await tenon(operator, ['approve', run, 'legal', '--data', '{}'])
  expect(first).toMatchObject({ code: 0, stdout: `${legal.id} open, 1 of 2 have approved\n` })
  const rejected = await tenon(
    operator,
    ['reject', run, 'finance', '--data', '-', '--comment', 'no'],
    '{a: 1}',
  )
  expect(rejected).toMatchObject({ code: 0, stdout: expect.stringMatching(/^apr_\w+ rejected\n$/) })
  const [id = ''] = rejected.stdout.split(' ')
  const listed = await tenon(operator, ['list', '--status', 'rejected', '--json'])
  expect(JSON.parse(listed.stdout)).toMatchObject([
    { id, decisions: [{ approved: false, comment: 'no', form: { a: 1 } }] },
  ])
})

test('unknown execution, approval of another workspace: one line, exit code 1', async () => {
  for (const id of ['run_nothing', 'apr_nothing']) {
    const { code, stdout, stderr } = await tenon(operator, ['show', id])
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('not_found')])
  }
})
