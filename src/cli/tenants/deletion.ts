/** `tenon tenant|workspace delete|restore`: a deletion with a time in which it can be undone, or a purge that is watched. */

import type { Command } from 'commander'
import { type ApiClient, ApiError } from '../client.ts'
import type { Operation } from '../operations/operation-view.ts'
import {
  finishOperation,
  NO_WAIT_FLAG,
  printOperation,
  type WatchOptions,
} from '../operations/watch-operation.ts'
import { JSON_FLAG, type JsonOption, printRecord } from '../output.ts'
import { adminClient } from '../settings.ts'
import { addVerb, refuseWithoutYes, YES_FLAG, type YesOption } from '../verb.ts'
import { type Noun, pathOf, type Tenant, type Workspace } from './nouns.ts'

interface DeleteOptions extends WatchOptions, YesOption {
  readonly graceDays?: string
}

async function remove(noun: Noun, id: string, options: DeleteOptions): Promise<number> {
  const { graceDays, yes } = options
  const [client, path] = [await adminClient(), pathOf(noun, id)]
  const isAtOnce = Number(graceDays) === 0
  if (isAtOnce && !yes) return refuse(client, noun, id)
  const query = graceDays === undefined ? '' : `?grace_days=${encodeURIComponent(graceDays)}`
  const operation = await client.call<Operation>('DELETE', `${path}${query}`)
  const until = isAtOnce ? undefined : await readDeleteAfter(client, path)
  if (until === undefined)
    return finishOperation(operation, options, {
      nextStep: `Once the cause is gone, go on with \`tenon ${noun} delete ${id} --grace-days 0 --yes\`.`,
    })
  process.stderr.write(
    `${id} is suspended, and will be purged at ${until}. Until then, \`tenon ${noun} restore ${id}\` brings it back.\n`,
  )
  return printOperation(operation, options)
}

/** The time of a purge to come; undefined if it has begun, or if there was nothing to purge. */
async function readDeleteAfter(client: ApiClient, path: string): Promise<string | undefined> {
  const found = await client.get<Tenant>(path).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  })
  const until = found?.delete_after ?? undefined
  return until !== undefined && Date.parse(until) > Date.now() ? until : undefined
}

/** Says what a purge would remove. */
async function refuse(client: ApiClient, noun: Noun, id: string): Promise<number> {
  const found = await client.get<Tenant & Partial<Workspace>>(pathOf(noun, id))
  const query = new URLSearchParams({ tenant_id: id })
  const inside = noun === 'tenant' ? await client.list<Workspace>(`/v1/workspaces?${query}`) : []
  return refuseWithoutYes(
    `With --grace-days 0 a purge begins at once, and nobody can restore what it removes:`,
    [lineOf(noun, found), ...inside.map((workspace) => lineOf('workspace', workspace))],
    `Without --grace-days, it can be restored for 7 days.`,
  )
}

function lineOf(noun: Noun, { id, slug, name, state, bucket }: Tenant & Partial<Workspace>): string {
  const objects = bucket ? `, with the objects of the bucket ${bucket}` : ''
  return `${noun} ${id}, ${slug} “${name}”, ${state}${objects}`
}

async function restore(noun: Noun, id: string, options: JsonOption): Promise<number> {
  const client = await adminClient()
  return printRecord(await client.post<Tenant>(`${pathOf(noun, id)}/restore`, {}), options)
}

export function removalVerbs(parent: Command, noun: Noun): void {
  addVerb(
    parent,
    'delete <id>',
    `Delete a ${noun}. It is suspended at once, and purged with all that it has after 7 days.`,
    (id: string, options: DeleteOptions) => remove(noun, id, options),
    [
      [
        '--grace-days <days>',
        'Days until the purge, 0 to 90. With 0 it begins at once, and the command shows its steps until it has ended.',
      ],
      YES_FLAG,
      NO_WAIT_FLAG,
      JSON_FLAG,
    ],
  )
  addVerb(
    parent,
    'restore <id>',
    `Restore a ${noun} that is being deleted, before its purge begins.`,
    (id: string, options: JsonOption) => restore(noun, id, options),
    [JSON_FLAG],
  )
}
