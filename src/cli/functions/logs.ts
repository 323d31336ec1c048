/** `tenon fn logs|runs`: the runs of a function, and the lines that they printed. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { type ApiClient, framesOf } from '../client.ts'
import {
  addVerb,
  dateTimeText,
  type Flag,
  printJson,
  printLine,
  printTable,
  WORKSPACE,
  type WorkspaceOption,
} from '../verb.ts'
import { functionClient } from './client.ts'

interface Run {
  readonly id: string
  readonly status: string
  readonly version: number
  readonly trigger: { readonly kind: string }
  readonly duration_ms: number | null
  readonly created_at: string
  readonly error: RunError | null
}

interface RunError {
  readonly code: string
  readonly detail: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
}

interface Line {
  readonly seq: number
  readonly at: string
  readonly level: string
  readonly text: string
}

interface RunsOptions extends WorkspaceOption {
  readonly limit: string
  readonly json?: boolean
}

/** The newest runs, newest first. */
async function newestRuns(client: ApiClient, path: string, limit: string): Promise<readonly Run[]> {
  const { data } = await client.get<{ data: readonly Run[] }>(`${path}/runs?page[size]=${limit}`)
  return data
}

async function runs(name: string, { limit, json, ...options }: RunsOptions): Promise<number> {
  const { client, path } = await functionClient(name, options)
  const found = await newestRuns(client, path, limit)
  if (json) return printJson(found)
  printTable(
    ['RUN', 'STATUS', 'VERSION', 'TRIGGER', 'STARTED', 'MS', 'ERROR'],
    found.map(({ id, status, version, trigger, created_at, duration_ms, error }) => [
      id,
      status,
      `v${version}`,
      trigger.kind,
      dateTimeText(created_at),
      duration_ms === null ? '' : String(duration_ms),
      error === null ? '' : errorText(error),
    ]),
  )
  return 0
}

/** `function_error at index.ts:3:9: no` */
function errorText({ code, detail, file, line, column }: RunError): string {
  const place = line === undefined ? '' : ` at ${file === undefined ? '' : `${file}:`}${line}:${column}`
  return `${code}${place}: ${detail}`
}

interface LogsOptions extends WorkspaceOption {
  readonly run?: string
  readonly limit: string
  readonly follow?: boolean
}

/** Prints the lines of one run, or of the newest ones, oldest first; with `follow`, those of runs to come as well. */
async function logs(name: string, { run, limit, follow, ...options }: LogsOptions): Promise<number> {
  const { client, path } = await functionClient(name, options)
  const shown = run === undefined ? (await newestRuns(client, path, limit)).toReversed() : [{ id: run }]
  if (!follow) {
    for (const { id } of shown) await printRun(client, path, id)
    return 0
  }
  if (run !== undefined) await followRun(client, path, run)
  else
    await followAll(
      client,
      path,
      shown.map(({ id }) => id),
      limit,
    )
  return 0
}

async function printRun(client: ApiClient, path: string, id: string): Promise<void> {
  for (const line of await client.list<Line>(`${path}/runs/${id}/logs`)) printRunLine(id, line)
  await printError(client, path, id)
}

const printRunLine = (id: string, { at, level, text }: Line): void =>
  printLine(`${dateTimeText(at)} ${id} ${level.padEnd(5)} ${text}`)

async function printError(client: ApiClient, path: string, id: string): Promise<void> {
  const { error, status } = await client.get<Run>(`${path}/runs/${id}`)
  if (status === 'failed' && error !== null) printLine(`${' '.repeat(19)} ${id} failed ${errorText(error)}`)
}

const POLL_MS = 1_000

/** Follows each run from its start, until the verb is interrupted. */
async function followAll(
  client: ApiClient,
  path: string,
  known: readonly string[],
  limit: string,
): Promise<never> {
  const seen = new Set<string>()
  for (
    let found = known;
    ;
    found = (await newestRuns(client, path, limit)).map(({ id }) => id).toReversed()
  ) {
    for (const id of found.filter((one) => !seen.has(one))) {
      seen.add(id)
      void followRun(client, path, id).catch((error: Error) => process.stderr.write(`${error.message}\n`))
    }
    await delay(POLL_MS)
  }
}

async function followRun(client: ApiClient, path: string, id: string): Promise<void> {
  const response = await client.send('GET', `${path}/runs/${id}/logs/stream`)
  for await (const { event, data } of framesOf(response)) {
    if (event === undefined) printRunLine(id, JSON.parse(data) as Line)
    if (event === 'end') break
  }
  await printError(client, path, id)
}

export function logVerbs(functions: Command): void {
  const limit: Flag = ['--limit <n>', 'how many of the newest runs', '20']
  addVerb(functions, 'runs <name>', 'list the newest runs of a function', runs, [
    limit,
    WORKSPACE,
    ['--json', 'print JSON'],
  ])
  addVerb(functions, 'logs <name>', 'print what the newest runs of a function printed', logs, [
    ['--follow', 'go on with runs to come'],
    ['--run <id>', 'of one run'],
    limit,
    WORKSPACE,
  ])
}
