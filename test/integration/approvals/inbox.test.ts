// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Approvals over the API: what is asked, who may decide, the list of the caller's own, and refusals. */

import { beforeAll, describe, expect, test } from 'vitest'
import { addAccount } from '../../support/clients/browser.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { keysOf } from '../../support/fixtures/keys.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
let mia: { id: string; email: string; as: Caller }
let leo: { id: string; email: string; as: Caller }

const PATH = '/v1/approvals'
const FORM =
  'form: { type: object, properties: { reason: { type: string, minLength: 3 } }, required: [reason] }'

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  mia = await person(['finance'])
  leo = await person([])
})

/** A person with an account of the role `service`, signed in. */
async function person(groups: string[]) {
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  const { id, email } = await addAccount(workspace.operator, { role: 'service', ...place })
  const changed = await call('PATCH', `/v1/accounts/${id}`, { as: workspace.operator, body: { groups } })
  expect(changed.body).toMatchObject({ groups })
  return { id, email: email.toUpperCase(), as: await tokenOf({ sub: id, roles: ['service'], ...place }) }
}

async function ask(approve: string, input: object = {}, as?: Caller): Promise<string> {
  const flow = await executions.publish(`  - board: { approve: { ${approve} } }`)
  const id = await executions.start(flow, { input }, as)
  await executions.shown(id, 'waiting')
  return id
}

const list = async (as: Caller, query = 'mine=true') =>
  (await call('GET', `${PATH}?${query}&page[size]=200`, { as })).body.data
const approvalOf = async (run: string): Promise<Reply['body']> => (await executions.read(run)).approvals[0]
const decide = (id: string, as: Caller, body: object = { approved: true }) =>
  call('POST', `${PATH}/${id}/decide`, { as, body })
const isMine = async (run: string, as: Caller) =>
  (await list(as)).some((one: Reply['body']) => one.execution_id === run)

describe('waiting approval', () => {
  test('execution and inbox: show title, form, data, approvers and deadline', async () => {
    const run = await ask(
      `title: '\${ "Pay \\(.sum)?" }', approvers: ['${mia.email}', 'role:workspace_admin'], deadline: P3D, ${FORM}`,
      { sum: 40, to: 'ada' },
    )
    const approval = await approvalOf(run)
    expect(approval).toMatchObject({
      id: expect.stringMatching(/^apr_/),
      execution_id: run,
      step: 'board',
      title: 'Pay 40?',
      form: { required: ['reason'] },
      data: { sum: 40, to: 'ada' },
      approvers: [mia.email.toLowerCase(), 'role:workspace_admin'],
      excluded: ['tenon-operator'],
      quorum: 1,
      status: 'open',
      decisions: [],
    })
    expect(Date.parse(approval.deadline_at) - Date.parse(approval.asked_at)).toBeGreaterThan(86_000_000 * 2)
    expect(await list(mia.as)).toContainEqual(approval)
    expect(await isMine(run, leo.as)).toBe(false)
    // Who is not asked sees that others are.
    const { title: _title, data: _data, ...shown } = approval
    expect(await list(leo.as, 'status=open')).toContainEqual({ ...shown, payloads: 'hidden' })
  })

  test('decided by e-mail: checks the form, records who decided, refuses a second decision', async () => {
    const run = await ask(`approvers: ['${mia.email}'], ${FORM}`)
    const { id } = await approvalOf(run)
    const refused = await decide(id, leo.as)
    expect([refused.status, refused.body.detail]).toEqual([409, `\`${leo.id}\` is not an approver.`])
    expect((await decide(id, mia.as, { approved: true, form: { reason: 'x' } })).status).toBe(409)
    expect((await approvalOf(run)).decisions).toEqual([])
    const decided = await decide(id, mia.as, { approved: true, form: { reason: 'fine' }, comment: 'ok' })
    expect([decided.status, decided.body]).toMatchObject([
      200,
      {
        status: 'approved',
        decisions: [{ by: mia.id, as: mia.email.toLowerCase(), approved: true, form: { reason: 'fine' } }],
      },
    ])
    const again = await decide(id, mia.as, { approved: false })
    expect([again.status, again.body.detail]).toEqual([409, 'The approval is approved.'])
    const { output, approvals } = await executions.ended(run)
    expect([output.decisions[0].as, approvals]).toEqual([mia.email.toLowerCase(), undefined])
  })

  test('quorum of a group and a person: each decision is on record at once', async () => {
    const run = await ask(`approvers: ['group:finance', ${leo.id}], quorum: 2`)
    const { id } = await approvalOf(run)
    const first = await decide(id, mia.as)
    expect(first.body).toMatchObject({ status: 'open', decisions: [{ by: mia.id, as: 'group:finance' }] })
    expect([await isMine(run, mia.as), await isMine(run, leo.as)]).toEqual([false, true])
    expect((await decide(id, mia.as)).body.detail).toContain('has decided already')
    expect((await decide(id, leo.as)).body).toMatchObject({ status: 'approved' })
  })

  test('branch of a fork, decided while another one waits: the outcome is on record at once', async () => {
    const task = (name: string) =>
      `        - ${name}: { approve: { approvers: ['${mia.email}', '${leo.email}'], quorum: 2, onReject: continue } }`
    const tasks = `  - both:\n      fork:\n        branches:\n${task('legal')}\n${task('finance')}`
    const run = await executions.start(await executions.publish(tasks))
    const { approvals } = await executions.until(run, (execution) => execution.approvals?.length === 2)
    const [legal, finance] = approvals
    expect((await decide(legal.id, mia.as, { approved: false })).body).toMatchObject({
      status: 'rejected',
      decisions: [{ by: mia.id, approved: false }],
    })
    expect((await decide(finance.id, mia.as)).body).toMatchObject({ status: 'open' })
    expect((await executions.read(run)).approvals).toMatchObject([{ id: finance.id }])
  })

  test('role: any holder decides; the first rejection ends it', async () => {
    const run = await ask(`approvers: ['role:service']`)
    const { id } = await approvalOf(run)
    expect((await decide(id, leo.as, { approved: false, comment: 'no' })).body).toMatchObject({
      status: 'rejected',
      decisions: [{ by: leo.id, as: 'role:service', approved: false, comment: 'no' }],
    })
  })

  test('subject that looks like a role: stands for no role', async () => {
    const run = await ask(`approvers: ['role:tenant_admin']`)
    const { id } = await approvalOf(run)
    const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
    const fake = await tokenOf({ sub: 'role:tenant_admin', roles: ['service'], ...place })
    expect(await isMine(run, fake)).toBe(false)
    expect((await decide(id, fake)).status).toBe(409)
  })

  test('admin: decides by the path of the workspace', async () => {
    const run = await ask(`approvers: ['role:operator'], fourEyes: false`)
    const { id } = await approvalOf(run)
    const as = workspace.operator
    expect((await call('GET', `${workspace.flows}/approvals?mine=true`, { as })).body.data).toContainEqual(
      expect.objectContaining({ id }),
    )
    const path = `${workspace.flows}/approvals/${id}/decide`
    expect((await call('POST', path, { as, body: { approved: true } })).body.status).toBe('approved')
  })

  test('key: needs the scope flows:approve, and counts as role:service', async () => {
    const run = await ask(`approvers: ['role:service']`)
    const { id } = await approvalOf(run)
    const keys = keysOf(workspace)
    const reader = { apikey: (await keys.make({ scopes: ['flows:read'] })).key }
    expect((await decide(id, reader)).body).toMatchObject({ scope: 'flows:approve' })
    const approver = { apikey: (await keys.make({ scopes: ['flows:approve'] })).key }
    expect((await decide(id, approver)).body.status).toBe('approved')
  })

  test('four-eyes: the starter is refused by name; too few approvers say who is excluded', async () => {
    const run = await ask(`approvers: ['${mia.email}', '${leo.email}']`, {}, workspace.operator)
    expect((await approvalOf(run)).excluded).toEqual(['tenon-operator'])
    const flow = await executions.publish('  - board: { approve: { approvers: [tenon-operator] } }')
    const { error } = await executions.ended(await executions.start(flow))
    expect(error.detail).toBe(
      '1 must approve, and only 0 may: tenon-operator has started the execution and is not counted (fourEyes).',
    )
    const own = await executions.publish(`  - board: { approve: { approvers: ['${mia.email}'] } }`)
    const started = await call('POST', `/v1/flows/${own}/executions`, { as: mia.as, body: {} })
    const approval = await executions.until(started.body.id, ({ approvals }) => approvals !== undefined)
    const refused = await decide(approval.approvals[0].id, mia.as)
    expect(refused.body.detail).toBe(`\`${mia.id}\` has started the execution and may not decide (fourEyes).`)
  })

  test('escalation: adds approvers after a time; the earlier ones still may', async () => {
    const run = await ask(`approvers: ['${mia.email}'], escalate: { after: PT1S, to: ['${leo.email}'] }`)
    const { id } = await approvalOf(run)
    await eventually(async () => ((await isMine(run, leo.as)) ? true : undefined))
    expect((await approvalOf(run)).approvers).toEqual([mia.email.toLowerCase(), leo.email.toLowerCase()])
    expect((await decide(id, leo.as)).body.status).toBe('approved')
  })

  test('deadline, cancellation: expired, cancelled', async () => {
    const late = await ask(`approvers: [x], deadline: PT1S, onDeadline: reject`)
    const { id } = await approvalOf(late)
    const cancelled = await ask(`approvers: [x]`)
    const other = await approvalOf(cancelled)
    await executions.send(cancelled, 'cancel')
    await Promise.all([executions.ended(late), executions.ended(cancelled)])
    const status = async (of: string) => (await call('GET', `${PATH}/${of}`, { as: leo.as })).body.status
    expect([await status(id), await status(other.id)]).toEqual(['expired', 'cancelled'])
    expect((await decide(id, leo.as)).body.detail).toBe('The approval is expired.')
  })

  test('data changed by hand: shows the new data', async () => {
    const flow = await executions.publish(
      `  - set: { set: { a: 1 }, export: { as: '\${ { sum: 1 } }' } }
  - board: { approve: { title: '\${ "Pay \\($context.sum)?" }', approvers: ['${mia.email}'] } }`,
    )
    const run = await executions.start(flow)
    await executions.shown(run, 'waiting')
    await executions.send(run, 'pause')
    expect((await executions.send(run, 'patch-data', { context: { sum: 2 } })).status).toBe(200)
    await executions.send(run, 'resume')
    const approval = await executions.until(run, ({ approvals }) => approvals?.[0].title === 'Pay 2?')
    expect(approval.approvals[0].status).toBe('open')
  })
})
