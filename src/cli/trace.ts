/** `tenon trace`: the story of one request, from the logs of an installation and from the records that it has made. */

import { createReadStream } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
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
  /** Id of the tenant. Undefined: of none. */
  readonly tenant: string | undefined
  readonly fields: Readonly<Record<string, unknown>>
}

interface TraceOptions {
  readonly logs?: readonly string[]
  readonly tenant?: string
  readonly records: boolean
  readonly json?: true
}

const DEFAULT_LOGS = join('.tenon', 'logs')

/** Prints all lines and records of the request and of its trace, in the order of time. @returns 1 if there are none */
async function trace(id: string, { logs, tenant, records, json }: TraceOptions): Promise<number> {
  const files = await listLogs(logs)
  const lines = await withSpooledInput(files, (readable) => linesAbout(id, tenant, readable))
  const found = records && lines.length > 0 ? await readRecords(lines) : []
  const story = [...lines, ...found].toSorted((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))
  if (story.length === 0) {
    const from = files.length === 0 ? `no logs in ${DEFAULT_LOGS}; name them by --logs` : files.join(', ')
    throw new Error(`No line${tenant === undefined ? '' : ` of ${tenant}`} is about ${id} (${from}).`)
  }
  if (json) return printJson(story.map(({ fields, ...entry }) => ({ ...fields, ...entry })))
  printTable(
    ['TIME', 'TENANT', 'FROM', 'WHAT', 'STATUS', 'MS', 'REQUEST', 'ABOUT'],
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

/** The standard input cannot be read twice, so its lines are kept in a file meanwhile. @param files paths, or `-` */
async function withSpooledInput<T>(
  files: readonly string[],
  work: (files: readonly LogFile[]) => Promise<T>,
): Promise<T> {
  const dir = files.includes('-') ? await mkdtemp(join(tmpdir(), 'tenon-trace-')) : undefined
  try {
    if (dir !== undefined) await writeFile(join(dir, '-'), spooled(), { mode: 0o600 })
    return await work(
      files.map((name) => ({ name, path: name === '-' && dir !== undefined ? join(dir, '-') : name })),
    )
  } finally {
    if (dir !== undefined) await rm(dir, { recursive: true, force: true })
  }
}

async function* spooled(): AsyncGenerator<string> {
  for await (const line of readLines(process.stdin)) yield `${line}\n`
}

interface LogFile {
  readonly name: string
  readonly path: string
}

/**
 * The lines of a request, a trace, an execution or a run, and all others of the same traces. Reads the logs twice, one line at a time,
 * since they may be larger than the memory: the line that tells to which trace the id belongs need not be the first one.
 * @param tenant of which lines are returned; undefined: of all, also of tenants whose clients have chosen the same trace
 */
async function linesAbout(
  id: string,
  tenant: string | undefined,
  files: readonly LogFile[],
): Promise<Entry[]> {
  const traces = new Set([id])
  for await (const { fields } of entriesWith(files, [id])) {
    const { trace_id, request_id, execution, workflow } = fields
    const isAbout = [trace_id, request_id, execution, workflow, runOf(workflow)].includes(id)
    if (isAbout && typeof trace_id === 'string') traces.add(trace_id)
  }
  const found: Entry[] = []
  for await (const entry of entriesWith(files, [...traces])) {
    const { request_id, trace_id } = entry.fields
    const isAbout = request_id === id || traces.has(String(trace_id))
    if (isAbout && (tenant === undefined || entry.tenant === tenant)) found.push(entry)
  }
  return found
}

/** The lines that contain one of the texts. */
async function* entriesWith(files: readonly LogFile[], texts: readonly string[]): AsyncGenerator<Entry> {
  for (const { name, path } of files)
    for await (const line of readLines(createReadStream(path))) {
      const entry = texts.some((text) => line.includes(text)) ? parseLine(line, name) : undefined
      if (entry !== undefined) yield entry
    }
}

async function* readLines(input: NodeJS.ReadableStream): AsyncGenerator<string> {
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
    const shown = { from: String(from ?? basename(file)), what: String(msg ?? level) }
    return { time, ...shown, tenant: tenantOf(fields), fields }
  } catch {
    return undefined
  }
}

/** The tenant of a line: lines of the API name it, those of the worker name a workflow, whose id begins with it. */
function tenantOf({ tenant, tenant_id, workflow }: Entry['fields']): string | undefined {
  const named = tenant ?? tenant_id ?? String(workflow ?? '').split(':')[0]
  return typeof named === 'string' && named !== '' ? named : undefined
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
  const [tenant, workspace, subject = ''] = workflow.split(':')
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
  return [{ time, from: 'record', what: isFlow ? 'execution' : 'function run', tenant, fields }]
}

/** Entries of the tenants of the lines, within a minute of them. */
async function readAudit(client: ApiClient, lines: readonly Entry[]): Promise<Entry[]> {
  const times = lines.map(({ time }) => Date.parse(time))
  const [first = 0, last = first] = [
    times.reduce((a, b) => Math.min(a, b)),
    times.reduce((a, b) => Math.max(a, b)),
  ]
  const since = new Date(first - MINUTE_MS).toISOString()
  const until = new Date(last + MINUTE_MS).toISOString()
  const traces = new Map(
    lines.map(({ tenant, fields: { trace_id } }) => [`${tenant} ${trace_id}`, { tenant, trace_id }]),
  )
  const asked = [...traces.values()].flatMap(({ tenant: tenant_id, trace_id }) =>
    tenant_id === undefined || typeof trace_id !== 'string'
      ? []
      : [new URLSearchParams({ tenant_id, trace_id, since, until })],
  )
  const read = async (query: URLSearchParams) => {
    const entries = await unlessRefused(client.list<Record<string, unknown>>(`/v1/audit?${query}`))
    return (entries ?? []).map(
      ({ at, tenant_id, operation, outcome, request_id, trace_id, target, actor }) => ({
        time: String(at),
        from: 'audit',
        what: String(operation),
        tenant: String(tenant_id),
        fields: { status: outcome, request_id, trace_id, about: target, actor },
      }),
    )
  }
  return (await Promise.all(asked.map(read))).flat()
}

/** Undefined for a record that is gone, or that the caller may not read. */
const unlessRefused = <T>(request: Promise<T>): Promise<T | undefined> =>
  request.catch((error: unknown) => {
    if (error instanceof ApiError && error.status < 500) return undefined
    throw error
  })

function rowOf({ time, from, what, tenant, fields }: Entry): string[] {
  const { status, ms, request_id, method, path, activity, workflow, execution, about, err } = fields
  const subject = about ?? (path === undefined ? undefined : `${method} ${path}`) ?? activity ?? execution
  const failure = Object(err) as { message?: string }
  return [
    time.slice(11, 23),
    tenant,
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
      [
        '--tenant <id>',
        'Print what belongs to this tenant alone. Default: all tenants whose requests have the trace.',
      ],
      ['--no-records', 'Read the logs alone, without credentials.'],
      ['--json', 'Print the entries as JSON.'],
    ],
  )
}
