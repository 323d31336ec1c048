/** `tenon flow list|show|versions`: what is on record of executions and versions. */

import type { Command } from 'commander'
import { flowsClient } from '../settings.ts'
import { printJson, verb, WORKSPACE } from '../verb.ts'
import { drawRun, markOf, RunTree, timeText } from './drawing.ts'
import { type Execution, flowNameOf, headOf, printFault, type Step } from './execution.ts'

interface Page<T> {
  readonly data: readonly T[]
}

interface ListOptions {
  readonly workspace?: string
  readonly json?: boolean
  readonly limit: string
  readonly flow?: string
  readonly status?: string
  readonly version?: string
  readonly trigger?: string
  readonly key?: string
}

async function list(options: ListOptions): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const { flow, status, version, trigger, key, limit } = options
  const filters = { flow, status, version, trigger, correlation_key: key, 'page[size]': limit }
  const given = Object.entries(filters).filter((pair): pair is [string, string] => pair[1] !== undefined)
  const page = await client.get<Page<Execution>>(`${base}/executions?${new URLSearchParams(given)}`)
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
    started_at.slice(0, 19).replace('T', ' '),
    timeText(lastedMs),
    correlation_key ?? '',
  ]
}

/** Columns as wide as what stands in them. */
function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  for (const row of [head, ...rows]) {
    const cells = row.map((cell, column) => cell.padEnd(widths[column] ?? 0))
    process.stdout.write(`${cells.join('  ').trimEnd()}\n`)
  }
}

/** The tree as it stands now, and the error with the line it comes from. */
async function show(id: string, options: { workspace?: string; json?: boolean }): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const execution = await client.get<Execution>(`${base}/executions/${id}`)
  if (options.json) return printJson(execution)
  const tree = treeOf(execution.steps ?? [])
  const { ended_at } = execution
  const nowMs = ended_at === null ? Date.now() : Date.parse(ended_at)
  const head = headOf(execution, await flowNameOf(client, base, execution))
  const output = process.stdout
  for (const line of drawRun(head, tree, { nowMs, columns: output.columns ?? 200, output }))
    output.write(`${line}\n`)
  await printFault(client, base, execution, output)
  return 0
}

/** Steps as they are on record, told in the order in which they began and then ended. */
function treeOf(steps: readonly Step[]): RunTree {
  const tree = new RunTree()
  for (const { pointer, started_at, ended_at, status, error, ...step } of steps) {
    const news = { ...step, task: pointer, error: error ?? undefined }
    tree.take({ ...news, status: 'running', at: started_at })
    const stands = ended_at === null && error !== null ? 'held' : status
    if (stands !== 'running') tree.take({ ...news, status: stands, at: ended_at ?? started_at })
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
    created_at.slice(0, 19).replace('T', ' '),
    created_by,
  ])
  printTable(['VERSION', 'SHA256', 'PUBLISHED', 'BY'], rows)
  return 0
}

export function recordVerbs(flows: Command): void {
  flows
    .command('list')
    .description('executions, newest first')
    .option(...WORKSPACE)
    .option('--flow <flow>', 'of one flow')
    .option('--status <status>', 'pending, running, waiting, suspended, completed, faulted or cancelled')
    .option('--version <n>', 'of one version')
    .option('--trigger <kind>', 'manual, schedule, webhook, event, flow or rerun')
    .option('--key <key>', 'by what you know it by')
    .option('--limit <n>', 'how many', '20')
    .option('--json', 'the page as it came')
    .action(verb(list))
  flows
    .command('show <execution>')
    .description('how a run stands, task by task, and where its fault comes from')
    .option(...WORKSPACE)
    .option('--json', 'the execution as it came')
    .action(verb(show))
  flows
    .command('versions <flow>')
    .description('published versions of a flow')
    .option(...WORKSPACE)
    .action(verb(versions))
}
