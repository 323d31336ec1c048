/** `tenon approval`: lists what people are asked, shows one approval, and decides it. */

import type { Command } from 'commander'
import type { ApiClient } from './client.ts'
import { JSON_NOTATION, jsonArgument } from './json-argument.ts'
import { flowsClient } from './settings.ts'
import { addVerb, dateTimeText, printJson, printTable, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface Decision {
  readonly by: string
  readonly as?: string
  readonly approved: boolean
  readonly at: string
  readonly form?: unknown
  readonly comment?: string
}

interface Approval {
  readonly id: string
  readonly execution_id: string
  readonly flow: string
  readonly step: string
  readonly title: string | null
  readonly form: unknown
  readonly data: unknown
  readonly approvers: readonly string[]
  readonly excluded: readonly string[]
  readonly quorum: number
  readonly status: string
  readonly decisions: readonly Decision[]
  readonly asked_at: string
  readonly deadline_at: string | null
}

/** A client, and the paths that its role may use. */
interface Access {
  readonly client: ApiClient
  readonly approvals: string
  readonly executions: string
}

/** Approvers need no admin role: their tokens name the workspace, and so their paths do not. */
async function readAccess({ workspace }: WorkspaceOption): Promise<Access> {
  const { client, base } = await flowsClient(workspace)
  const { roles } = await client.get<{ roles: readonly string[] }>('/v1/me')
  const isAdmin = roles.some((role) => role === 'operator' || role.endsWith('_admin'))
  return isAdmin
    ? { client, approvals: `${base}/approvals`, executions: `${base}/executions` }
    : { client, approvals: '/v1/approvals', executions: '/v1/flows/executions' }
}

/**
 * Finds an approval by its id, or the open one of an execution.
 * @throws Error if the execution has none, or several and none is named
 */
async function find(
  { client, approvals, executions }: Access,
  id: string,
  step: string | undefined,
): Promise<Approval> {
  if (id.startsWith('apr_')) return client.get<Approval>(`${approvals}/${encodeURIComponent(id)}`)
  const { approvals: open = [] } = await client.get<{ approvals?: readonly Approval[] }>(
    `${executions}/${encodeURIComponent(id)}`,
  )
  const named = open.filter((one) => step === undefined || one.step === step || one.id === step)
  const [found] = named
  if (found !== undefined && named.length === 1) return found
  const known = open.map((one) => `${one.step} (${one.id})`).join(', ')
  if (open.length === 0) throw new Error(`${id} waits for no approval.`)
  if (found === undefined) throw new Error(`${id} waits for no approval ${step}; it waits for ${known}.`)
  throw new Error(`${id} waits for several approvals: ${known}. Name one of them.`)
}

interface ListOptions extends WorkspaceOption {
  readonly mine?: boolean
  readonly status?: string
  readonly json?: boolean
}

async function list({ mine, status, json, workspace }: ListOptions): Promise<number> {
  const { client, approvals } = await readAccess({ ...(workspace !== undefined && { workspace }) })
  const query = new URLSearchParams({
    ...(mine && { mine: 'true' }),
    ...(status !== undefined && { status }),
  })
  const found = await client.list<Approval>(`${approvals}?${query}`)
  if (json) return printJson(found)
  const rows = found.map(({ id, flow, step, title, execution_id, deadline_at }) => [
    id,
    title ?? `${step} of ${flow}`,
    deadline_at === null ? '–' : dateTimeText(deadline_at),
    `${execution_id} ${step}`,
  ])
  printTable(['APPROVAL', 'TITLE', 'UNTIL', 'EXECUTION AND STEP'], rows)
  return 0
}

async function show(
  id: string,
  step: string | undefined,
  { json, ...options }: WorkspaceOption & { json?: boolean },
): Promise<number> {
  const approval = await find(await readAccess(options), id, step)
  if (json) return printJson(approval)
  for (const line of linesOf(approval)) process.stdout.write(`${line}\n`)
  return 0
}

function linesOf(approval: Approval): string[] {
  const { title, flow, step, execution_id, status, quorum, deadline_at, form, data } = approval
  const rows: [name: string, value: string][] = [
    ['approval', approval.id],
    ['step', `${step} of ${flow}, ${execution_id}`],
    ['status', status],
    ['approvers', `${approval.approvers.join(', ')}; ${quorum} must approve`],
    ...(approval.excluded.length > 0 ? [['excluded', approval.excluded.join(', ')] as [string, string]] : []),
    ['requested', dateTimeText(approval.asked_at)],
    ...(deadline_at === null ? [] : [['until', dateTimeText(deadline_at)] as [string, string]]),
    ['data', data === undefined ? HIDDEN : indented(data)],
    ...(form === null ? [] : [['form', indented(form)] as [string, string]]),
    ...approval.decisions.map((one) => ['decision', decisionText(one)] as [string, string]),
  ]
  return [title ?? `${step} of ${flow}`, ...rows.map(([name, value]) => `  ${name.padEnd(10)} ${value}`)]
}

function decisionText({ by, as, approved, at, comment, form }: Decision): string {
  const name = as === undefined ? by : `${by} as ${as}`
  const values = form === undefined ? '' : `, ${JSON.stringify(form)}`
  return `${approved ? 'approved' : 'rejected'} by ${name} at ${dateTimeText(at)}${values}${comment ? `: ${comment}` : ''}`
}

const HIDDEN = 'hidden: you are not asked, and may not see payloads of others'

/** JSON whose further lines stand below its first one. */
const indented = (value: unknown) => JSON.stringify(value, null, 2).replaceAll('\n', `\n${' '.repeat(13)}`)

interface DecideOptions extends WorkspaceOption {
  readonly data?: string
  readonly comment?: string
}

/** Decides an approval, and prints its status: it stays open until as many as the quorum have approved. */
const decide =
  (approved: boolean) =>
  async (id: string, step: string | undefined, { data, comment, ...options }: DecideOptions) => {
    const access = await readAccess(options)
    const approval = await find(access, id, step)
    const body = {
      approved,
      ...(data !== undefined && { form: await jsonArgument(data, 'The form') }),
      ...(comment !== undefined && { comment }),
    }
    const decided = await access.client.post<Approval>(`${access.approvals}/${approval.id}/decide`, body)
    process.stdout.write(`${decided.id} ${statusText(decided)}\n`)
    return 0
  }

function statusText({ status, decisions, quorum }: Approval): string {
  if (status !== 'open') return status
  return `open, ${decisions.filter(({ approved }) => approved).length} of ${quorum} have approved`
}

export function approvalVerbs(program: Command): void {
  const approval = program.command('approval').description('Manage approvals that flows request from people.')
  addVerb(approval, 'list', 'List approvals with their executions and steps.', list, [
    WORKSPACE,
    ['--mine', 'List only approvals that you can decide now.'],
    [
      '--status <status>',
      'Status of the listed approvals: open, approved, rejected, expired or cancelled. Default: open.',
    ],
    ['--json', 'Print the approvals as JSON.'],
  ])
  addVerb(
    approval,
    'show <execution> [step]',
    'Show an approval of an execution. Accepts the id of an approval instead of <execution>.',
    show,
    [WORKSPACE, ['--json', 'Print the approval as JSON.']],
  )
  addVerb(
    approval,
    'approve <execution> [step]',
    'Approve a step. [step] is required if several steps wait for approval.',
    decide(true),
    [
      WORKSPACE,
      ['--data <json>', `Values of the form: ${JSON_NOTATION}.`],
      ['--comment <text>', 'Comment on the decision.'],
    ],
  )
  addVerb(
    approval,
    'reject <execution> [step]',
    'Reject a step. [step] is required if several steps wait for approval.',
    decide(false),
    [
      WORKSPACE,
      ['--data <json>', `Values of the form: ${JSON_NOTATION}.`],
      ['--comment <text>', 'Comment on the decision.'],
    ],
  )
}
