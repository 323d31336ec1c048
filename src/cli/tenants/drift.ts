/** `tenon tenant|workspace drift`: how buckets, schedules and other resources differ from the database. */

import type { Command } from 'commander'
import { JSON_LINES_FLAG, type JsonOption, printPages } from '../output.ts'
import { adminClient } from '../settings.ts'
import { visible } from '../terminal.ts'
import { addVerb } from '../verb.ts'
import { type Noun, pathOf, type Workspace } from './nouns.ts'

interface Difference {
  readonly resource: string
  readonly name: string
  readonly kind: string
  readonly detail: string
  readonly repair: string
}

interface Drift {
  readonly target: string
  readonly differences: readonly Difference[]
  readonly unread: readonly { readonly resource: string; readonly detail: string }[]
}

/** Prints the differences. @returns exit code 0 if all was compared and nothing differs */
async function drift(noun: Noun, id: string, { json }: JsonOption): Promise<number> {
  const client = await adminClient()
  const path = pathOf(noun, id)
  const tenantId = noun === 'tenant' ? id : (await client.get<Workspace>(path)).tenant_id
  const compared: Drift[] = []
  for await (const page of client.pages<Drift>(`${pathOf('tenant', tenantId)}/drift`))
    compared.push(...page.filter(({ target }) => noun === 'tenant' || target === id))
  await (json ? printPages([compared], {}, { json }) : printDifferences(compared))
  return compared.every(({ differences, unread }) => differences.length + unread.length === 0) ? 0 : 1
}

async function printDifferences(compared: readonly Drift[]): Promise<void> {
  const rows = compared.flatMap(({ target, differences }) => differences.map((one) => ({ target, ...one })))
  const columns = {
    TARGET: ({ target }: { target: string }) => target,
    RESOURCE: ({ resource }: Difference) => resource,
    NAME: ({ name }: Difference) => name,
    DIFFERENCE: ({ kind }: Difference) => kind,
    REPAIR: ({ repair }: Difference) => repair,
    DETAIL: ({ detail }: Difference) => detail,
  }
  if (rows.length > 0) await printPages<Difference & { target: string }>([rows], columns)
  for (const { target, unread } of compared)
    for (const { resource, detail } of unread)
      process.stderr.write(visible(`${target}: ${resource} was not compared. ${detail}`).concat('\n'))
  if (rows.length === 0) process.stderr.write(`${compared.length} compared, no differences found.\n`)
}

export function driftVerb(parent: Command, noun: Noun): void {
  addVerb(
    parent,
    'drift <id>',
    `List how what a ${noun} has in other systems, such as buckets, differs from the database. The exit code is 1 if anything differs or could not be compared.`,
    (id: string, options: JsonOption) => drift(noun, id, options),
    [JSON_LINES_FLAG],
  )
}
