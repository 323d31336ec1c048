/** `tenon operation list|show|watch`: long-running operations, such as the creation of a tenant. */

import type { Command } from 'commander'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, type ListOptions, printPages } from '../output.ts'
import { adminClient } from '../settings.ts'
import { addVerb, dateTimeText } from '../verb.ts'
import type { Operation } from './operation-view.ts'
import { finishOperation, printOperation } from './watch-operation.ts'

const pathOf = (id: string) => `/v1/operations/${encodeURIComponent(id)}`

async function list(options: ListOptions): Promise<number> {
  const client = await adminClient()
  return printPages(
    client.pages<Operation>('/v1/operations'),
    {
      OPERATION: ({ id }) => id,
      TYPE: ({ type }) => type,
      TARGET: ({ target }) => target,
      STATE: ({ state }) => state,
      CREATED: ({ created_at: at }) => dateTimeText(at),
      FINISHED: ({ finished_at: at }) => at && dateTimeText(at),
      ERROR: ({ error }) => error?.code,
    },
    options,
  )
}

async function show(id: string, options: JsonOption): Promise<number> {
  const client = await adminClient()
  return printOperation(await client.get<Operation>(pathOf(id)), options)
}

async function watch(id: string, options: JsonOption): Promise<number> {
  const client = await adminClient()
  return finishOperation(await client.get<Operation>(pathOf(id)), options)
}

export function operationVerbs(program: Command): void {
  const operation = program
    .command('operation')
    .description('Watch long-running operations, such as the creation or the deletion of a tenant.')
  addVerb(operation, 'list', 'List operations.', list, [
    ['--limit <n>', 'Print at most so many. Default: all.'],
    JSON_LINES_FLAG,
  ])
  addVerb(operation, 'show <id>', 'Print an operation with its steps.', show, [JSON_FLAG])
  addVerb(
    operation,
    'watch <id>',
    'Show the steps of an operation until it has ended, then print it. The exit code is 0 if it succeeded.',
    watch,
    [JSON_FLAG],
  )
}
