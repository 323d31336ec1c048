/** `tenon flow alias` and `tenon fn alias`: names for a version, or for several by weight. */

import type { Command } from 'commander'
import type { ApiClient } from '../client.ts'
import { addVerb, printLine, WORKSPACE, type WorkspaceOption } from '../verb.ts'

interface Weighted {
  readonly version: number
  readonly weight: number
}

interface Alias {
  readonly name: string
  readonly versions: readonly Weighted[]
}

/** Finds the flow or function of that name. @returns a client, and its path */
type Open = (name: string, options: WorkspaceOption) => Promise<{ client: ApiClient; path: string }>

/** `production  v3`, `canary  v3 90 %, v4 10 %` */
function lineOf({ name, versions }: Alias): string {
  const sum = versions.reduce((all, { weight }) => all + weight, 0)
  const share = (weight: number) => `${Math.round((1_000 * weight) / sum) / 10} %`
  const targets = versions.map(({ version, weight }) =>
    versions.length === 1 ? `v${version}` : `v${version} ${share(weight)}`,
  )
  return `${name}  ${targets.join(', ')}`
}

/** Parses `3` or `3:90`. @throws Error otherwise */
function weighted(text: string): Weighted {
  const [, version, weight = '1'] = /^v?(\d+)(?::(\d+))?$/.exec(text) ?? []
  if (version === undefined) throw new Error(`${text} is not a version: write 3, or 3:90 for a weight of 90.`)
  return { version: Number(version), weight: Number(weight) }
}

const pathOf = (path: string, alias: string) => `${path}/aliases/${encodeURIComponent(alias)}`

const list = (open: Open) => async (name: string, options: WorkspaceOption) => {
  const { client, path } = await open(name, options)
  for (const alias of await client.list<Alias>(`${path}/aliases`)) printLine(lineOf(alias))
  return 0
}

const set =
  (open: Open) => async (name: string, alias: string, versions: string[], options: WorkspaceOption) => {
    const body = { versions: versions.map(weighted) }
    const { client, path } = await open(name, options)
    printLine(lineOf(await client.call<Alias>('PUT', pathOf(path, alias), body)))
    return 0
  }

const remove = (open: Open) => async (name: string, alias: string, options: WorkspaceOption) => {
  const { client, path } = await open(name, options)
  await client.call('DELETE', pathOf(path, alias))
  return 0
}

/** @param noun of what the aliases belong to: `flow` or `function` */
export function aliasVerbs(parent: Command, noun: string, open: Open): void {
  const alias = parent
    .command('alias')
    .description(`Manage aliases: names for one version of a ${noun}, or for several versions by weight.`)
  addVerb(alias, `list <${noun}>`, `List the aliases of a ${noun}.`, list(open), [WORKSPACE])
  addVerb(
    alias,
    `set <${noun}> <name> <versions...>`,
    'Set an alias to one version, such as 3, or to several by weight, such as 3:90 4:10.',
    set(open),
    [WORKSPACE],
  )
  addVerb(alias, `remove <${noun}> <name>`, 'Remove an alias. Its versions are kept.', remove(open), [
    WORKSPACE,
  ])
}
