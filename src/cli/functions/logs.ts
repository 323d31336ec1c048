/** `tenon fn logs|runs`: the runs of a function, and the lines that they printed. */

import type { Command } from 'commander'
import type { ApiClient } from '../client.ts'
import {
  addVerb,
  dateTimeText,
  type Flag,
  printJson,
  printTable,
  WORKSPACE,
  type WorkspaceOption,
} from '../verb.ts'
import { functionClient } from './client.ts'
import { followAll, followRun } from './follow-logs.ts'
import { errorText, printRun, type Run } from './run-lines.ts'

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

interface LogsOptions extends WorkspaceOption {
  readonly run?: string
  readonly limit: string
  readonly follow?: boolean
}

/** Prints the lines of one run, or of the newest ones, oldest first; with `follow`, those of runs to come as well. */
async function logs(name: string, { run, limit, follow, ...options }: LogsOptions): Promise<number> {
  const { client, path } = await functionClient(name, options)
  if (run !== undefined) {
    if (follow) await followRun(client, path, run)
    else await printRun(client, path, await client.get<Run>(`${path}/runs/${run}`))
    return 0
  }
  const runs = (await newestRuns(client, path, limit)).toReversed()
  if (follow) await followAll(client, path, runs)
  for (const one of runs) await printRun(client, path, one)
  return 0
}

export function logVerbs(functions: Command): void {
  const limit: Flag = ['--limit <n>', 'Maximum number of the newest runs.', '20']
  addVerb(functions, 'runs <name>', 'List the newest runs of a function.', runs, [
    limit,
    WORKSPACE,
    ['--json', 'Print the runs as JSON.'],
  ])
  addVerb(functions, 'logs <name>', 'Print the log of the newest runs of a function.', logs, [
    ['--follow', 'Continue with the logs of future runs.'],
    ['--run <id>', 'Print only the log of this run.'],
    limit,
    WORKSPACE,
  ])
}
