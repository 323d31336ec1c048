/** `tenon flow list|show|versions`: lists executions and versions, and shows an execution. */

import type { Command } from 'commander'
import type { ApiClient } from '../client.ts'
import { flowsClient } from '../settings.ts'
import { markOf } from '../terminal.ts'
import { addVerb, dateTimeText, printJson, printTable, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { drawExecution, ExecutionTree, timeText } from './drawing.ts'
import { type Execution, headOf, printFault, readFlowName, type Step } from './execution.ts'
import { printStepData, stepsOf } from './steps.ts'

interface Page<T> {
  readonly data: readonly T[]
}

interface ListOptions extends WorkspaceOption {
  readonly json?: boolean
  readonly limit: string
  readonly flow?: string
  readonly status?: string
  readonly error?: string
  readonly version?: string
  readonly trigger?: string
  readonly key?: string
}

async function list(options: ListOptions): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const { flow, status, error, version, trigger, key, limit } = options
  const named = { error_type: error, correlation_key: key, 'page[size]': limit }
  const filters = { flow, status, version, trigger, ...named }
  const query = Object.entries(filters).filter((pair): pair is [string, string] => pair[1] !== undefined)
  const page = await client.get<Page<Execution>>(`${base}/executions?${new URLSearchParams(query)}`)
  if (options.json) return printJson(page)
  const { data: flows } = await client.get<Page<{ id: string; name: string }>>(
    `${base}/definitions?page[size]=200`,
  )
  const names = new Map(flows.map(({ id, name }) => [id, name]))
  const rows = page.data.map((execution) => rowOf(execution, names.get(execution.flow_id)))
  printTable(['EXECUTION', 'FLOW', 'STATUS', 'TRIGGER', 'STARTED', 'LASTED', 'KEY'], rows)
  return 0
}

function rowOf(execution: Execution, name: string | undefined): string[] {
  const { id, flow_id, version, status, trigger, started_at, ended_at, correlation_key } = execution
  const lastedMs = (ended_at === null ? Date.now() : Date.parse(ended_at)) - Date.parse(started_at)
  return [
    id,
    `${name ?? flow_id} v${version}`,
    `${markOf(status, {} as never)} ${status}`,
    trigger.kind,
    dateTimeText(started_at),
    timeText(lastedMs),
    correlation_key ?? '',
  ]
}

interface ShowOptions extends WorkspaceOption {
  readonly json?: boolean
  readonly data?: boolean
  readonly step?: string
}

/** Prints the tree of the execution, and its error with the line of the source; or the data of steps. */
async function show(id: string, { workspace, json, data, step }: ShowOptions): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  if (step !== undefined) {
    await printStepData({ client, base }, id, step)
    return 0
  }
  const execution = await client.get<Execution>(`${base}/executions/${id}`)
  if (json) return printJson(execution)
  const tree = treeOf(await allSteps(client, base, execution))
  const { ended_at } = execution
  const nowMs = ended_at === null ? Date.now() : Date.parse(ended_at)
  const head = headOf(execution, await readFlowName(client, base, execution))
  const output = process.stdout
  for (const line of drawExecution(head, tree, { nowMs, columns: output.columns ?? 200, output }))
    output.write(`${line}\n`)
  if (execution.overdue)
    output.write('overdue: the execution takes longer than `expect.duration` of its version\n')
  const { event_gap: gap } = execution
  if (gap !== null)
    output.write(
      `Events between ${gap.from} and ${gap.to} were dropped. A listen task may have missed some of them.\n`,
    )
  await printFault(client, base, execution, output)
  if (data) await printStepData({ client, base }, id, undefined)
  return 0
}

/** The steps of an execution: the execution has the first 1,000, the pages have all. */
async function allSteps(client: ApiClient, base: string, execution: Execution): Promise<readonly Step[]> {
  if (execution.steps_omitted === undefined) return execution.steps ?? []
  const steps = await stepsOf(client, base, execution.id)
  return steps.map(({ id, task, attempts, error = null, ...step }) => ({
    ...step,
    seq: Number(id),
    pointer: task,
    attempt: attempts,
    error,
  }))
}

/** The tree of recorded steps. */
function treeOf(steps: readonly Step[]): ExecutionTree {
  const tree = new ExecutionTree()
  for (const { pointer, started_at, ended_at, status, error, ...step } of steps) {
    const update = { ...step, task: pointer, error: error ?? undefined }
    tree.apply({ ...update, status: 'running', at: started_at })
    const displayedStatus = ended_at === null && error !== null ? 'held' : status
    if (displayedStatus !== 'running')
      tree.apply({ ...update, status: displayedStatus, at: ended_at ?? started_at })
  }
  return tree
}

interface Version {
  readonly version: number
  readonly sha256: string
  readonly created_by: string
  readonly created_at: string
}

async function versions(flow: string, options: { workspace?: string }): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const path = `${base}/definitions/${encodeURIComponent(flow)}/versions?page[size]=200`
  const { data } = await client.get<Page<Version>>(path)
  const rows = data.map(({ version, sha256, created_at, created_by }) => [
    `v${version}`,
    sha256.slice(0, 12),
    dateTimeText(created_at),
    created_by,
  ])
  printTable(['VERSION', 'SHA256', 'PUBLISHED', 'BY'], rows)
  return 0
}

export function recordVerbs(flows: Command): void {
  addVerb(flows, 'list', 'List executions, newest first.', list, [
    WORKSPACE,
    ['--flow <flow>', 'List only executions of this flow.'],
    [
      '--status <statuses>',
      'Comma-separated statuses: pending, running, waiting, suspended, completed, faulted, cancelled.',
    ],
    ['--error <type>', 'List only executions with this error: a URI, or a short name such as communication.'],
    ['--version <n>', 'List only executions of this version of the flow.'],
    [
      '--trigger <kind>',
      'List only executions started by this trigger: manual, schedule, webhook, event, flow or rerun.',
    ],
    ['--key <key>', 'List only executions with this correlation key.'],
    ['--limit <n>', 'Maximum number of executions.', '20'],
    ['--json', 'Print the page as JSON.'],
  ])
  addVerb(flows, 'show <execution>', 'Show an execution task by task, and the source of its fault.', show, [
    WORKSPACE,
    ['--json', 'Print the execution as JSON.'],
    ['--data', 'Print input, arguments and output of each step, too.'],
    ['--step <step>', 'Print the data of one step only: a task, or one of its iterations such as send#7.'],
  ])
  addVerb(flows, 'versions <flow>', 'List the published versions of a flow.', versions, [WORKSPACE])
}
