/** `tenon fn invoke`: calls a deployed function with the service key. */

import type { Command } from 'commander'
import { ApiError } from '../client.ts'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import { serviceClient } from '../settings.ts'
import { addVerb, printJson } from '../verb.ts'

/** Prints the result alone on stdout, and the lines of a failed run on stderr. */
async function invoke(name: string, options: { input: string }): Promise<number> {
  const client = await serviceClient()
  // As text with its content type, since `call` would send a JSON string as YAML.
  const input = JSON.stringify(await jsonArgument(options.input, 'The input'))
  try {
    const path = `/v1/functions/${encodeURIComponent(name)}/invoke`
    return printJson(await client.call('POST', path, input, { 'content-type': 'application/json' }))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    for (const line of (error.problem['logs'] ?? []) as string[]) process.stderr.write(`| ${line}\n`)
    throw error
  }
}

export function invokeVerb(functions: Command): void {
  addVerb(
    functions,
    'invoke <name>',
    'invoke a function with TENON_SERVICE_KEY and print its result',
    invoke,
    [['--input <json>', `argument of the function: ${JSON_NOTATION}`, '{}']],
  )
}
