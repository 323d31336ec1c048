/** `tenon types`: writes the declared collections as TypeScript. */

import { readFile, writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { callerPath, workspaceClient } from '../settings.ts'
import { addVerb, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { collectionsFile, type DeclaredCollection, isEdited } from './collection-types.ts'

interface TypesOptions extends WorkspaceOption {
  readonly out?: string
  readonly force?: boolean
}

/** @throws Error if the file was edited by hand, so that no edit is lost */
async function write({ workspace, out = 'tenon-types.ts', force }: TypesOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const { schemas } = await client.get<{ schemas: readonly DeclaredCollection[] }>(
    `/v1/schemas/export?workspace_id=${workspace_id}`,
  )
  const text = collectionsFile(schemas)
  if (out === '-') {
    process.stdout.write(text)
    return 0
  }
  const path = callerPath(out)
  const before = await readFile(path, 'utf8').catch(() => undefined)
  if (before !== undefined && isEdited(before) && force !== true)
    throw new Error(
      `${out} was edited by hand, or is another file. Keep your own types in a file of their own, and add --force to replace it.`,
    )
  if (before !== text) await writeFile(path, text)
  const count = schemas.length === 1 ? '1 collection' : `${schemas.length} collections`
  process.stdout.write(`${out} (${count}${before === text ? ', unchanged' : ''})\n`)
  return 0
}

export function typesVerb(program: Command): void {
  const description =
    'Write the declared collections as TypeScript types, for `createClient<Collections>()` of `@tenon/client`.'
  addVerb(program, 'types', description, write, [
    ['--out <file>', 'File to write; `-`: standard output. Default: tenon-types.ts.'],
    ['--force', 'Replace a file that was edited by hand.'],
    WORKSPACE,
  ])
}
