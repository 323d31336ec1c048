/** `tenon trace`: the story of one request, from the logs of an installation and from the records that it has made. */

import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import { typeId } from '../core/ids.ts'
import { refOf } from '../core/tenant.ts'
import { MINUTE_MS } from '../core/units.ts'
import { type ApiClient, ApiError } from './client.ts'
import { callerPath, operatorClient, readSettings } from './settings.ts'
import { addVerb, printJson, printTable } from './verb.ts'

/** One line of a log, or one record. */
interface Entry {
  /** RFC 3339. */
  readonly time: string
  /** The process that has written it, or the kind of record. */
  readonly from: string
  readonly what: string
  readonly fields: Readonly<Record<string, unknown>>
}

interface TraceOptions {
  readonly logs?: readonly string[]
  readonly records: boolean
  readonly json?: true
}

const DEFAULT_LOGS = join('.tenon', 'logs')

/** Prints all lines and records of the request and of its trace, in the order of time. @returns 1 if there are none */
async function trace(id: string, { logs, records, json }: TraceOptions): Promise<number> {
  const files = await listLogs(logs)
  const lines = await linesAbout(id, files)
  const found = records && lines.length > 0 ? await readRecords(lines) : []
  const story = [...lines, ...found].toSorted((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))
  if (story.length === 0) {
    const from = files.length === 0 ? `no logs in ${DEFAULT_LOGS}; name them by --logs` : files.join(', ')
    throw new Error(`No line is about ${id} (${from}).`)
  }
  if (json) return printJson(story.map(({ fields, ...entry }) => ({ ...entry, ...fields })))
  printTable(
    ['TIME', 'FROM', 'WHAT', 'STATUS', 'MS', 'REQUEST', 'ABOUT'],
    story.map((entry) => rowOf(entry).map(printable)),
  )
  return 0
}

/** @returns paths, or `-` for the standard input */
async function listLogs(logs: readonly string[] | undefined): Promise<readonly string[]> {
  if (logs !== undefined) return logs.map((file) => (file === '-' ? file : callerPath(file)))
  const names = await readdir(DEFAULT_LOGS).catch(() => [])
  return names.filter((name) => name.endsWith('.log')).map((name) => join(DEFAULT_LOGS, name))
}

/**
 * The lines of a request, a trace, an execution or a run, and all others of the same traces. Reads the logs twice: the line that
 * tells to which trace the id belongs need not be the first one.
 */
async function linesAbout(id: string, files: readonly string[]): Promise<Entry[]> {
  const all: Entry[] = []
  const traces = new Set([id])
  for (const file of files)
    for await (const text of readLines(file)) {
      const line = parseLine(text, file)
      if (line === undefined) continue
      all.push(line)
      if (!text.includes(id)) continue
      const { trace_id, request_id, execution, workflow } = line.fields
      const isAbout = [trace_id, request_id, execution, workflow, runOf(workflow)].includes(id)
      if (isAbout && typeof trace_id === 'string') traces.add(trace_id)
    }
  return all.filter(
    ({ fields: { request_id, trace_id } }) => request_id === id || traces.has(String(trace_id)),
  )
}

async function* readLines(file: string): AsyncGenerator<string> {
  const input = file === '-' ? process.stdin : createReadStream(file)
  // Lines without the name of a trace are about none.
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY }))
    if (line.includes('"trace_id"')) yield line
}

/** A line of a process of the platform; collectors may have put a prefix before it. */
function parseLine(text: string, file: string): Entry | undefined {
  try {
    const {
      time,
      level,
      process: from,
      msg,
      pid,
      hostname,
      ...fields
    } = JSON.parse(text.slice(text.indexOf('{')))
    if (typeof time !== 'string') return undefined
    return { time, from: String(from ?? basename(file)), what: String(msg ?? level), fields }
  } catch {
    return undefined
  }
}

/** The id of the execution or run of a workflow id. */
function runOf(workflow: unknown): string | undefined {
  const uuid = String(workflow ?? '').split(':')[3]
  return uuid === undefined ? undefined : typeId('run', uuid)
}

/** Executions, runs and audit entries that the lines are about, as far as the caller may read them. */
async function readRecords(lines: readonly Entry[]): Promise<Entry[]> {
  const client = await operatorClient(await readSettings()).catch((error: unknown) => {
    process.stderr.write(
      `The records are left out: ${error instanceof Error ? error.message : String(error)}\n`,
    )
    return undefined
  })
  if (client === undefined) return []
  const workflows = new Set(lines.flatMap(({ fields: { workflow } }) => (workflow ? [String(workflow)] : [])))
  const runs = await Promise.all([...workflows].map((workflow) => readRun(client, workflow)))
  return [...runs.flat(), ...(await readAudit(client, lines))]
}

interface Run {
  readonly id: string
  readonly status: string
  readonly started_at: string | null
  readonly created_at?: string
  readonly ended_at: string | null
  readonly flow_name?: string
  readonly request_id: string | null
  readonly trace_id: string | null
}

async function readRun(client: ApiClient, workflow: string): Promise<Entry[]> {
  const [, workspace, subject = ''] = workflow.split(':')
  const id = runOf(workflow)
  const isFlow = subject.startsWith('flow_')
  if (id === undefined || refOf(workflow) === undefined || !(isFlow || subject.startsWith('fn_'))) return []
  const path = isFlow
    ? `/v1/flows/workspaces/${workspace}/executions/${id}`
    : `/v1/functions/${subject}/runs/${id}`
  const run = await unlessRefused(client.get<Run>(path))
  if (run === undefined) return []
  const { status, started_at, created_at, ended_at, request_id, trace_id, flow_name } = run
  const time = created_at ?? started_at ?? ''
  const ms = ended_at === null ? undefined : Date.parse(ended_at) - Date.parse(time)
  const fields = { id, status, ms, request_id, trace_id, about: flow_name ?? subject }
  return [{ time, from: 'record', what: isFlow ? 'execution' : 'function run', fields }]
}

/** Entries of the tenants of the lines, within a minute of them. */
async function readAudit(client: ApiClient, lines: readonly Entry[]): Promise<Entry[]> {
  const texts = (name: string) =>
    new Set(lines.flatMap(({ fields }) => (typeof fields[name] === 'string' ? [String(fields[name])] : [])))
  const times = lines.map(({ time }) => Date.parse(time))
  const [first = 0, last = first] = [
    times.reduce((a, b) => Math.min(a, b)),
    times.reduce((a, b) => Math.max(a, b)),
  ]
  const since = new Date(first - MINUTE_MS).toISOString()
  const until = new Date(last + MINUTE_MS).toISOString()
  const tenants = [
    ...texts('tenant'),
    ...[...texts('workflow')].map((workflow) => workflow.split(':')[0] ?? ''),
  ]
  const asked = [...new Set(tenants)].flatMap((tenant_id) =>
    [...texts('trace_id')].map((trace_id) => new URLSearchParams({ tenant_id, trace_id, since, until })),
  )
  const read = async (query: URLSearchParams) => {
    const entries = await unlessRefused(client.list<Record<string, unknown>>(`/v1/audit?${query}`))
    return (entries ?? []).map(({ at, operation, outcome, request_id, trace_id, target, actor }) => ({
      time: String(at),
      from: 'audit',
      what: String(operation),
      fields: { status: outcome, request_id, trace_id, about: target, actor },
    }))
  }
  return (await Promise.all(asked.map(read))).flat()
}

/** Undefined for a record that is gone, or that the caller may not read. */
const unlessRefused = <T>(request: Promise<T>): Promise<T | undefined> =>
  request.catch((error: unknown) => {
    if (error instanceof ApiError && error.status < 500) return undefined
    throw error
  })

function rowOf({ time, from, what, fields }: Entry): string[] {
  const { status, ms, request_id, method, path, activity, workflow, execution, about, err } = fields
  const subject = about ?? (path === undefined ? undefined : `${method} ${path}`) ?? activity ?? execution
  const failure = Object(err) as { message?: string }
  return [
    time.slice(11, 23),
    from,
    what,
    status,
    ms,
    request_id,
    [subject, runOf(workflow), failure.message],
  ].map((cell) => (Array.isArray(cell) ? cell.filter(Boolean).join(' ') : String(cell ?? '')))
}

/** Callers choose parts of lines, which must not move the cursor of a terminal. */
const printable = (cell: string): string => cell.replaceAll(/\p{Cc}/gu, '\ufffd')

export function traceVerbs(program: Command): void {
  addVerb(
    program,
    'trace <id>',
    'Print what a request has caused, in the order of time: lines of all logs, executions, function runs, audit entries.',
    trace,
    [
      ['--logs <files...>', `Logs of the processes, or - for stdin. Default: all in ${DEFAULT_LOGS}.`],
      ['--no-records', 'Read the logs alone, without credentials.'],
      ['--json', 'Print the entries as JSON.'],
    ],
  )
}
