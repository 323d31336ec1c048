/** `tenon workspace egress`: the non-public addresses that the flows of a workspace may call. */

import type { Command } from 'commander'
import { workspaceClient } from './settings.ts'
import { addVerb, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface Services {
  readonly egress: { readonly allow: readonly string[] }
}

/** Changes the list by `change`, and prints it, one address a line. */
async function update(
  { workspace }: WorkspaceOption,
  change?: (allowed: readonly string[]) => Iterable<string>,
): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const path = `/v1/services?workspace_id=${encodeURIComponent(workspace_id)}`
  let { egress } = await client.get<Services>(path)
  if (change !== undefined) {
    const body = { workspace_id, egress: { allow: [...change(egress.allow)] } }
    egress = (await client.post<Services>('/v1/services/configure', body)).egress
  }
  for (const address of egress.allow) process.stdout.write(`${address}\n`)
  return 0
}

export function egressVerbs(program: Command): void {
  const workspace = program.command('workspace').description('Manage the settings of a workspace.')
  const egress = workspace
    .command('egress')
    .description('Manage the non-public addresses that flows may call.')
  addVerb(egress, 'list', 'Print the allowed addresses.', (options: WorkspaceOption) => update(options), [
    WORKSPACE,
  ])
  addVerb(
    egress,
    'allow <addresses...>',
    'Allow addresses, each HOST:PORT as in the URL. Requires the role operator.',
    (added: string[], options: WorkspaceOption) =>
      update(options, (allowed) => new Set([...allowed, ...added])),
    [WORKSPACE],
  )
  addVerb(
    egress,
    'remove <addresses...>',
    'Remove addresses from the allowed ones.',
    (removed: string[], options: WorkspaceOption) =>
      update(options, (allowed) => allowed.filter((one) => !removed.includes(one))),
    [WORKSPACE],
  )
}
