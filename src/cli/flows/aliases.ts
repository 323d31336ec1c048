/** `tenon flow alias`: names of a flow that mean a version, or several of them by weight. */

import type { Command } from 'commander'
import { verb, WORKSPACE } from '../verb.ts'
import { place } from './place.ts'

interface Weighted {
  readonly version: number
  readonly weight: number
}

interface Alias {
  readonly name: string
  readonly versions: readonly Weighted[]
}

interface Options {
  readonly workspace?: string
}

const pathOf = (base: string, flow: string, name = '') =>
  `${base}/definitions/${encodeURIComponent(flow)}/aliases${name && `/${encodeURIComponent(name)}`}`

/** `production  v3`, `canary  v3 90 %, v4 10 %` */
function lineOf({ name, versions }: Alias): string {
  const sum = versions.reduce((all, { weight }) => all + weight, 0)
  const share = (weight: number) => `${Math.round((1_000 * weight) / sum) / 10} %`
  const meant = versions.map(({ version, weight }) =>
    versions.length === 1 ? `v${version}` : `v${version} ${share(weight)}`,
  )
  return `${name}  ${meant.join(', ')}\n`
}

async function list(flow: string, { workspace }: Options): Promise<number> {
  const { client, base } = await place(workspace)
  const { data } = await client.get<{ data: readonly Alias[] }>(`${pathOf(base, flow)}?page[size]=200`)
  for (const alias of data) process.stdout.write(lineOf(alias))
  return 0
}

async function set(flow: string, name: string, versions: string[], options: Options): Promise<number> {
  const { client, base } = await place(options.workspace)
  const body = { versions: versions.map(weighted) }
  process.stdout.write(lineOf(await client.call<Alias>('PUT', pathOf(base, flow, name), body)))
  return 0
}

/** @throws Error where it is neither `3` nor `3:90` */
function weighted(text: string): Weighted {
  const [, version, weight = '1'] = /^v?(\d+)(?::(\d+))?$/.exec(text) ?? []
  if (version === undefined) throw new Error(`${text} is no version: give 3, or 3:90 for a weight of 90.`)
  return { version: Number(version), weight: Number(weight) }
}

async function remove(flow: string, name: string, { workspace }: Options): Promise<number> {
  const { client, base } = await place(workspace)
  await client.call('DELETE', pathOf(base, flow, name))
  return 0
}

export function aliasVerbs(flows: Command): void {
  const alias = flows
    .command('alias')
    .description('names of a flow that mean a version, or several by weight')
  const command = (text: string, description: string) =>
    alias
      .command(text)
      .description(description)
      .option(...WORKSPACE)
  command('list <flow>', 'what each alias means').action(verb(list))
  command('set <flow> <name> <versions...>', 'let a name mean 3, or by weight 3:90 4:10').action(verb(set))
  command('remove <flow> <name>', 'what it meant stays').action(verb(remove))
}
