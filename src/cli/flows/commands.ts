/** `tenon flow approve|cancel|pause|resume|retry|rerun`: what a person tells a run. */

import type { Command } from 'commander'
import { flowsClient, readCallerFile } from '../settings.ts'
import { jsonOf, printJson, verb, WORKSPACE } from '../verb.ts'
import type { Execution } from './execution.ts'
import { yamlIn } from './simulate.ts'
import { follow } from './watch.ts'

interface Options {
  readonly workspace?: string
}

/** Tells the run, and prints how it stands then. */
async function send(id: string, command: string, body: object, { workspace }: Options): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const { status } = await client.post<Execution>(`${base}/executions/${id}/${command}`, body)
  process.stdout.write(`${id} ${status}\n`)
  return 0
}

interface Decision extends Options {
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

interface Again extends Options {
  readonly from?: string
  readonly step?: string
  readonly input?: string
  readonly version?: string
  readonly dryRun?: boolean
  readonly detach?: boolean
}

/** A step that is held is tried again in the same run; a run that has ended, in another from where it failed. */
async function retry(id: string, options: Again): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const { ended_at } = await client.get<Execution>(`${base}/executions/${id}`)
  if (ended_at !== null) return rerun(id, { from: 'failed', ...options })
  const { step } = options
  await client.post(`${base}/executions/${id}/retry-step`, step === undefined ? {} : { step })
  return options.detach ? 0 : follow(options.workspace, id)
}

/** Starts an execution once more, and watches it. */
async function rerun(id: string, options: Again): Promise<number> {
  const { from, input, version, dryRun, workspace } = options
  const { client, base } = await flowsClient(workspace)
  const body = {
    ...(from !== undefined && { from }),
    ...(input !== undefined && { input: yamlIn(await readCallerFile(input), input) }),
    ...(version !== undefined && { version: jsonOf(version, 'The version') }),
    ...(dryRun && { dry_run: true }),
  }
  const again = await client.post<Execution & { plan?: unknown }>(`${base}/executions/${id}/rerun`, body)
  if (dryRun) return printJson(again.plan)
  if (options.detach) {
    process.stdout.write(`${again.id}\n`)
    return 0
  }
  process.stderr.write(`${again.id}\n`)
  return follow(workspace, again.id)
}

export function commandVerbs(flows: Command): void {
  const command = (text: string, description: string) =>
    flows
      .command(text)
      .description(description)
      .option(...WORKSPACE)
  command('approve <execution>', 'decide an approval that a run waits for')
    .option('--step <step>', 'the task, or `pointer#iteration`, where several wait')
    .option('--reject', 'decide against it')
    .option('--comment <text>', 'why')
    .option('--form <json>', 'what the form of the approval asks for')
    .action(verb(approve))
  command('cancel <execution>', 'cancel a run; what it did and can undo is undone first').action(
    verb((id: string, options: Options) => send(id, 'cancel', {}, options)),
  )
  command('pause <execution>', 'let a run begin nothing new')
    .option('--reason <text>', 'why')
    .action(
      verb((id: string, { reason, ...options }: Options & { reason?: string }) =>
        send(id, 'pause', reason === undefined ? {} : { reason }, options),
      ),
    )
  command('resume <execution>', 'let a run that was paused go on').action(
    verb((id: string, options: Options) => send(id, 'resume', {}, options)),
  )
  command('retry <execution>', 'try a step that is held again, or a run that failed from where it failed')
    .option('--step <step>', 'of several that are held')
    .option('--detach', 'do not watch')
    .action(verb(retry))
  command('rerun <execution>', 'run once more, from the start or from a step, and watch')
    .option('--from <step>', 'a task, a pointer, `pointer#iteration`, or `failed`')
    .option('--input <file>', 'another input, as JSON or YAML')
    .option('--version <n>', 'another version of the flow')
    .option('--dry-run', 'only say what would be taken over')
    .option('--detach', 'print the id and go')
    .action(verb(rerun))
}
