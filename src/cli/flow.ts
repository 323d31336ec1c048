/** `tenon flow`: its verbs are in flows/. */

import type { Command } from 'commander'
import { aliasVerbs } from './flows/aliases.ts'
import { checkVerbs } from './flows/check.ts'
import { commandVerbs } from './flows/commands.ts'
import { initVerb } from './flows/init.ts'
import { definitionVerbs } from './flows/publish.ts'
import { recordVerbs } from './flows/records.ts'
import { simulateVerbs } from './flows/simulate.ts'
import { stepVerbs } from './flows/steps.ts'
import { watchVerbs } from './flows/watch.ts'
import { flowsClient } from './settings.ts'

export function flowVerbs(program: Command): void {
  const flows = program.command('flow').description('Manage flows.')
  initVerb(flows)
  checkVerbs(flows)
  simulateVerbs(flows)
  definitionVerbs(flows)
  aliasVerbs(flows, 'flow', async (name, { workspace }) => {
    const { client, base } = await flowsClient(workspace)
    return { client, path: `${base}/definitions/${encodeURIComponent(name)}` }
  })
  watchVerbs(flows)
  recordVerbs(flows)
  stepVerbs(flows)
  commandVerbs(flows)
}
