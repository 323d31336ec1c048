/** `tenon flow approve|cancel|pause|resume|retry|rerun`: commands to an execution. */

import type { Command } from 'commander'
import { flowsClient, readCallerFile } from '../settings.ts'
import { addVerb, jsonOf, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import type { Execution } from './execution.ts'
import { yamlIn } from './simulate.ts'
import { follow } from './watch.ts'

/** Sends a command, and prints the status of the execution afterwards. */
async function send(
  id: string,
  command: string,
  body: object,
  { workspace }: WorkspaceOption,
): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const { status } = await client.post<Execution>(`${base}/executions/${id}/${command}`, body)
  process.stdout.write(`${id} ${status}\n`)
  return 0
}

interface Decision extends WorkspaceOption {
  readonly step?: string
  readonly reject?: boolean
  readonly comment?: string
  readonly form?: string
}

function approve(id: string, { step, reject, comment, form, ...options }: Decision): Promise<number> {
  const body = {
    approved: reject !== true,
    ...(step !== undefined && { step }),
    ...(comment !== undefined && { comment }),
    ...(form !== undefined && { form: jsonOf(form, 'The form') }),
  }
  return send(id, 'approve', body, options)
}

interface RerunOptions extends WorkspaceOption {
  readonly from?: string
  readonly step?: string
  readonly input?: string
  readonly version?: string
  readonly dryRun?: boolean
  readonly detach?: boolean
}

/** Retries a held step in the same execution; if that has ended, reruns it from the failed step. */
async function retry(id: string, options: RerunOptions): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const { ended_at } = await client.get<Execution>(`${base}/executions/${id}`)
  if (ended_at !== null) return rerun(id, { from: 'failed', ...options })
  const { step } = options
  await client.post(`${base}/executions/${id}/retry-step`, step === undefined ? {} : { step })
  return options.detach ? 0 : follow(options.workspace, id)
}

/** Repeats an execution, and watches the new one. */
async function rerun(id: string, options: RerunOptions): Promise<number> {
  const { from, input, version, dryRun, workspace } = options
  const { client, base } = await flowsClient(workspace)
  const body = {
    ...(from !== undefined && { from }),
    ...(input !== undefined && { input: yamlIn(await readCallerFile(input), input) }),
    ...(version !== undefined && { version: jsonOf(version, 'The version') }),
    ...(dryRun && { dry_run: true }),
  }
  const execution = await client.post<Execution & { plan?: unknown }>(`${base}/executions/${id}/rerun`, body)
  if (dryRun) return printJson(execution.plan)
  if (options.detach) {
    process.stdout.write(`${execution.id}\n`)
    return 0
  }
  process.stderr.write(`${execution.id}\n`)
  return follow(workspace, execution.id)
}

export function commandVerbs(flows: Command): void {
  addVerb(flows, 'approve <execution>', 'decide an approval that an execution waits for', approve, [
    WORKSPACE,
    ['--step <step>', 'the task, or `pointer#iteration`, if several wait'],
    ['--reject', 'reject it'],
    ['--comment <text>', 'reason'],
    ['--form <json>', 'values for the form of the approval'],
  ])
  addVerb(
    flows,
    'cancel <execution>',
    'cancel an execution; completed steps are compensated first',
    (id: string, options: WorkspaceOption) => send(id, 'cancel', {}, options),
    [WORKSPACE],
  )
  addVerb(
    flows,
    'pause <execution>',
    'start no further steps of an execution',
    (id: string, { reason, ...options }: WorkspaceOption & { reason?: string }) =>
      send(id, 'pause', reason === undefined ? {} : { reason }, options),
    [WORKSPACE, ['--reason <text>', 'reason']],
  )
  addVerb(
    flows,
    'resume <execution>',
    'continue a paused execution',
    (id: string, options: WorkspaceOption) => send(id, 'resume', {}, options),
    [WORKSPACE],
  )
  addVerb(
    flows,
    'retry <execution>',
    'retry a held step, or rerun a failed execution from the step that failed',
    retry,
    [WORKSPACE, ['--step <step>', 'the step, if several are held'], ['--detach', 'do not watch']],
  )
  addVerb(
    flows,
    'rerun <execution>',
    'repeat an execution, from the start or from a step, and watch it',
    rerun,
    [
      WORKSPACE,
      ['--from <step>', 'a task, a pointer, `pointer#iteration`, or `failed`'],
      ['--input <file>', 'another input, as JSON or YAML'],
      ['--version <n>', 'another version of the flow'],
      ['--dry-run', 'only print the results that would be reused'],
      ['--detach', 'print the id, and do not watch'],
    ],
  )
}
