/** `tenon fn redrive`: runs dead letters again. */

import type { Command } from 'commander'
import { addVerb, printLine, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { functionClient } from './client.ts'

interface Redriven {
  readonly redriven: readonly { readonly run: string; readonly as: string }[]
  readonly refused: readonly { readonly run: string; readonly detail: string }[]
  readonly has_more: boolean
  readonly next: string | null
}

/**
 * Runs one dead letter again, or all of the function. Prints old and new id of each run on stdout, and those that were refused on
 * stderr.
 * @returns 1 if one was refused
 */
async function redrive(name: string, run: string | undefined, options: WorkspaceOption): Promise<number> {
  const { client, path } = await functionClient(name, options)
  if (run !== undefined) {
    const { id } = await client.call<{ id: string }>(
      'POST',
      `${path}/runs/${encodeURIComponent(run)}/redrive`,
    )
    printLine(`${run} runs again as ${id}`)
    return 0
  }
  let refusedCount = 0
  let redrivenCount = 0
  for (let after: string | null = ''; after !== null; ) {
    const query: string = after === '' ? '' : `?after=${encodeURIComponent(after)}`
    const { redriven, refused, has_more, next } = await client.call<Redriven>(
      'POST',
      `${path}/redrive${query}`,
    )
    for (const { run: old, as } of redriven) printLine(`${old} runs again as ${as}`)
    for (const { run: old, detail } of refused) process.stderr.write(`${old} was not run again: ${detail}\n`)
    redrivenCount += redriven.length
    refusedCount += refused.length
    after = has_more ? next : null
  }
  if (redrivenCount + refusedCount === 0) process.stderr.write(`${name} has no dead letters.\n`)
  return refusedCount === 0 ? 0 : 1
}

export function redriveVerb(functions: Command): void {
  addVerb(
    functions,
    'redrive <name> [run]',
    'Run a dead letter (a failed asynchronous run) of a function again. Default: all dead letters.',
    redrive,
    [WORKSPACE],
  )
}
