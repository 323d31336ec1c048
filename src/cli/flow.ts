/** `tenon flow publish`; the other verbs of flows are in flows/. */

import type { Command } from 'commander'
import { type ApiClient, ApiError } from './client.ts'
import { aliasVerbs } from './flows/aliases.ts'
import { checkVerbs } from './flows/check.ts'
import { commandVerbs } from './flows/commands.ts'
import { faultsOf } from './flows/compiler.ts'
import { type Fault, printFaults, printWarnings } from './flows/faults.ts'
import { initVerb } from './flows/init.ts'
import { place, read } from './flows/place.ts'
import { recordVerbs } from './flows/records.ts'
import { simulateVerb } from './flows/simulate.ts'
import { testVerb } from './flows/test.ts'
import { watchVerbs } from './flows/watch.ts'
import { verb, WORKSPACE } from './verb.ts'

interface Flow {
  readonly id: string
  readonly name: string
  readonly source: string
}

/** Creates or replaces the draft, and publishes it. */
async function publish(file: string, options: { workspace?: string }): Promise<number> {
  const { client, base } = await place(options.workspace)
  try {
    const { flow, version, sha256, warnings } = await publishSource(client, base, await read(file))
    printWarnings(file, warnings)
    process.stdout.write(`${flow.name} v${version} ${sha256.slice(0, 12)} (${flow.id})\n`)
    return 0
  } catch (error) {
    printFaults(file, faultsOf(error))
    return 1
  }
}

interface Published {
  readonly flow: Flow
  readonly version: number
  readonly sha256: string
  readonly warnings: readonly Fault[]
}

/** Finds the draft of the same name or makes it, and publishes. */
export async function publishSource(client: ApiClient, base: string, source: string): Promise<Published> {
  const flow = await putDraft(client, base, source)
  return {
    flow,
    ...(await client.post<Omit<Published, 'flow'>>(`${base}/definitions/${flow.id}/versions`, {})),
  }
}

async function putDraft(client: ApiClient, base: string, source: string): Promise<Flow> {
  try {
    return await client.post<Flow>(`${base}/definitions`, source)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error
    const [, name = ''] = /^ {2}name: *['"]?([a-z0-9-]+)/m.exec(source) ?? []
    return client.call<Flow>('PUT', `${base}/definitions/${name}`, source)
  }
}

export function flowVerbs(program: Command): void {
  const flows = program.command('flow').description('flows')
  initVerb(flows)
  checkVerbs(flows)
  simulateVerb(flows)
  testVerb(flows)
  flows
    .command('publish <file>')
    .description('make or replace the draft of that name, and publish it')
    .option(...WORKSPACE)
    .action(verb(publish))
  aliasVerbs(flows)
  watchVerbs(flows)
  recordVerbs(flows)
  commandVerbs(flows)
}
