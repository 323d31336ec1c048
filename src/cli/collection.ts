/** `tenon collection add|list <name>`: documents, with the service key of the workspace. */

import type { Command } from 'commander'
import { readSettings, serviceClient } from './settings.ts'
import { jsonOf, printJson, verb } from './verb.ts'

const documents = (name: string) => `/v1/collections/${encodeURIComponent(name)}/documents`

async function add(name: string, document: string): Promise<number> {
  const client = serviceClient(await readSettings())
  return printJson(await client.post(documents(name), jsonOf(document, 'The document')))
}

/** Filters stand as they do in the URL: `status=eq.open order=_created_at.desc`. */
async function list(name: string, filters: readonly string[]): Promise<number> {
  const client = serviceClient(await readSettings())
  const query = new URLSearchParams(
    filters.map((filter) => {
      const at = filter.indexOf('=')
      if (at < 1) throw new Error(`A filter has the form field=operator.value: ${filter}`)
      return [filter.slice(0, at), filter.slice(at + 1)] as [string, string]
    }),
  )
  return printJson(await client.get(`${documents(name)}?${query}`))
}

export function collectionVerbs(program: Command): void {
  const collection = program.command('collection').description('documents of a collection')
  collection.command('add <name> <json>').description('create a document').action(verb(add))
  collection
    .command('list <name> [filters...]')
    .description('list documents: status=eq.open order=_created_at.desc')
    .action(verb(list))
}
