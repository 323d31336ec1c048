/** `tenon secret|schedule|trigger`: secrets of flows, and what starts flows. */

import type { Command } from 'commander'
import { JSON_NOTATION, jsonArgument, textArgument } from './json-argument.ts'
import { flowsClient } from './settings.ts'
import { addVerb, dateTimeText, printJson, printTable, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface Secret {
  readonly name: string
  readonly updated_by: string
  readonly updated_at: string
}

async function listSecrets({ workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const secrets = await client.list<Secret>(`${base}/secrets`)
  printTable(
    ['SECRET', 'UPDATED', 'BY'],
    secrets.map(({ name, updated_at, updated_by }) => [name, dateTimeText(updated_at), updated_by]),
  )
  return 0
}

/** Stores a text without its final line break, or with `--json` a value. */
async function setSecret(
  name: string,
  argument = '-',
  { workspace, json }: WorkspaceOption & { json?: boolean } = {},
): Promise<number> {
  const value = json
    ? await jsonArgument(argument, 'The value')
    : (await textArgument(argument)).replace(/\r?\n$/, '')
  const { client, base } = await flowsClient(workspace)
  return printJson(await client.call('PUT', `${base}/secrets/${encodeURIComponent(name)}`, { value }))
}

async function deleteSecret(name: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  return printJson(await client.call('DELETE', `${base}/secrets/${encodeURIComponent(name)}`))
}

interface Trigger {
  readonly id: string
  readonly kind?: string
  readonly key: string
  readonly flow_name: string
  readonly version: number
  readonly paused: boolean
  readonly url?: string
  readonly spec?: { readonly cron?: string; readonly every_ms?: number }
  readonly next?: readonly string[] | null
  readonly last_run?: { readonly status: string } | null
}

/** The next start; `?` if Temporal did not tell it. */
function nextText({ next }: Trigger): string {
  if (next === null) return '?'
  const [first] = next ?? []
  return first === undefined ? '–' : dateTimeText(first)
}

/** Lists schedules, or all triggers. */
const listOf = (noun: 'schedules' | 'triggers') => async (options: WorkspaceOption & { json?: boolean }) => {
  const { client, base } = await flowsClient(options.workspace)
  const triggers = await client.list<Trigger>(`${base}/${noun}`)
  if (options.json) return printJson(triggers)
  const rows = triggers.map((trigger) => {
    const { id, kind = 'schedule', key, flow_name, version, paused, url, last_run } = trigger
    const state = paused ? 'paused' : 'active'
    const next = noun === 'schedules' ? [nextText(trigger)] : []
    const about = url ?? (last_run ? `${key}  last ${last_run.status}` : key)
    return [id, kind, `${flow_name} v${version}`, state, ...next, about]
  })
  const next = noun === 'schedules' ? ['NEXT'] : []
  printTable(['TRIGGER', 'KIND', 'FLOW', 'STATE', ...next, ''], rows)
  return 0
}

/** Prints which filters of an event trigger accept an event. */
async function test(id: string, event: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const body = { event: await jsonArgument(event, 'The event') }
  return printJson(await client.post(`${base}/triggers/${encodeURIComponent(id)}/test`, body))
}

/** Sends a command to a schedule or trigger, and prints the response. */
const commandOf =
  (noun: 'schedules' | 'triggers', verb: string) =>
  async (id: string, { workspace, note }: WorkspaceOption & { note?: string }) => {
    const { client, base } = await flowsClient(workspace)
    const body = note === undefined ? {} : { note }
    return printJson(await client.post(`${base}/${noun}/${encodeURIComponent(id)}/${verb}`, body))
  }

export function triggerVerbs(program: Command): void {
  const secret = program.command('secret').description('Manage secrets of flows.')
  addVerb(secret, 'list', 'List the names of secrets, without values.', listSecrets, [WORKSPACE])
  addVerb(
    secret,
    'set <name> [value]',
    'Store a secret. [value] is a text, @file, or - for stdin. Default: -.',
    setSecret,
    [WORKSPACE, ['--json', 'Read the value as JSON or YAML: an object or a list of texts.']],
  )
  addVerb(secret, 'delete <name>', 'Delete a secret, and print the flows that use it.', deleteSecret, [
    WORKSPACE,
  ])
  const schedule = program.command('schedule').description('Manage schedules that start flows.')
  addVerb(schedule, 'list', 'List schedules.', listOf('schedules'), [
    WORKSPACE,
    ['--json', 'Print the result as JSON.'],
  ])
  pauseVerbs(schedule, 'schedules')
  addVerb(
    schedule,
    'trigger <id>',
    'Start an execution of a schedule now.',
    commandOf('schedules', 'trigger'),
    [WORKSPACE],
  )
  const trigger = program
    .command('trigger')
    .description('Manage triggers of flows: schedules, webhooks, events.')
  addVerb(trigger, 'list', 'List triggers.', listOf('triggers'), [
    WORKSPACE,
    ['--json', 'Print the result as JSON.'],
  ])
  pauseVerbs(trigger, 'triggers')
  addVerb(
    trigger,
    'test <id> <event>',
    `Test an event against the filters of a trigger. <event> is ${JSON_NOTATION}.`,
    test,
    [WORKSPACE],
  )
  addVerb(
    trigger,
    'rotate-secret <id>',
    'Replace the secret of a webhook and print the new one.',
    commandOf('triggers', 'rotate-secret'),
    [WORKSPACE],
  )
}

function pauseVerbs(parent: Command, noun: 'schedules' | 'triggers'): void {
  addVerb(
    parent,
    'pause <id>',
    `Pause a ${noun.slice(0, -1)}. It starts nothing until it is resumed.`,
    commandOf(noun, 'pause'),
    [WORKSPACE, ['--note <text>', 'Reason, stored as the note of the trigger.']],
  )
  addVerb(parent, 'resume <id>', `Resume a ${noun.slice(0, -1)}.`, commandOf(noun, 'resume'), [
    WORKSPACE,
    ['--note <text>', 'Reason, stored as the note of the trigger.'],
  ])
}
