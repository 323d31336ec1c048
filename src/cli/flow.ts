/** `tenon flow alias`; the other verbs of flows are in flows/. */

import type { Command } from 'commander'
import { checkVerbs } from './flows/check.ts'
import { commandVerbs } from './flows/commands.ts'
import { initVerb } from './flows/init.ts'
import { definitionVerbs } from './flows/publish.ts'
import { recordVerbs } from './flows/records.ts'
import { simulateVerbs } from './flows/simulate.ts'
import { stepVerbs } from './flows/steps.ts'
import { watchVerbs } from './flows/watch.ts'
import { flowsClient } from './settings.ts'
import { addVerb, WORKSPACE, type WorkspaceOption } from './verb.ts'

export function flowVerbs(program: Command): void {
  const flows = program.command('flow').description('flows')
  initVerb(flows)
  checkVerbs(flows)
  simulateVerbs(flows)
  definitionVerbs(flows)
  aliasVerbs(flows)
  watchVerbs(flows)
  recordVerbs(flows)
  stepVerbs(flows)
  commandVerbs(flows)
}

interface Weighted {
  readonly version: number
  readonly weight: number
}

interface Alias {
  readonly name: string
  readonly versions: readonly Weighted[]
}

const pathOf = (base: string, flow: string, name = '') =>
  `${base}/definitions/${encodeURIComponent(flow)}/aliases${name && `/${encodeURIComponent(name)}`}`

/** `production  v3`, `canary  v3 90 %, v4 10 %` */
function lineOf({ name, versions }: Alias): string {
  const sum = versions.reduce((all, { weight }) => all + weight, 0)
  const share = (weight: number) => `${Math.round((1_000 * weight) / sum) / 10} %`
  const targets = versions.map(({ version, weight }) =>
    versions.length === 1 ? `v${version}` : `v${version} ${share(weight)}`,
  )
  return `${name}  ${targets.join(', ')}\n`
}

async function list(flow: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const { data } = await client.get<{ data: readonly Alias[] }>(`${pathOf(base, flow)}?page[size]=200`)
  for (const alias of data) process.stdout.write(lineOf(alias))
  return 0
}

async function set(
  flow: string,
  name: string,
  versions: string[],
  options: WorkspaceOption,
): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const body = { versions: versions.map(weighted) }
  process.stdout.write(lineOf(await client.call<Alias>('PUT', pathOf(base, flow, name), body)))
  return 0
}

/** Parses `3` or `3:90`. @throws Error otherwise */
function weighted(text: string): Weighted {
  const [, version, weight = '1'] = /^v?(\d+)(?::(\d+))?$/.exec(text) ?? []
  if (version === undefined) throw new Error(`${text} is not a version: write 3, or 3:90 for a weight of 90.`)
  return { version: Number(version), weight: Number(weight) }
}

async function remove(flow: string, name: string, { workspace }: WorkspaceOption): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  await client.call('DELETE', pathOf(base, flow, name))
  return 0
}

function aliasVerbs(flows: Command): void {
  const alias = flows.command('alias').description('names for a version of a flow, or for several by weight')
  addVerb(alias, 'list <flow>', 'list the aliases of a flow', list, [WORKSPACE])
  addVerb(
    alias,
    'set <flow> <name> <versions...>',
    'set an alias to a version: 3, or several by weight: 3:90 4:10',
    set,
    [WORKSPACE],
  )
  addVerb(alias, 'remove <flow> <name>', 'remove an alias, not its versions', remove, [WORKSPACE])
}
