/** `tenon fn invoke`; the other verbs of functions are in functions/. */

import type { Command } from 'commander'
import { ApiError } from './client.ts'
import { aliasVerbs } from './flows/aliases.ts'
import { functionClient } from './functions/client.ts'
import { deployVerbs } from './functions/deploy.ts'
import { initVerb } from './functions/init.ts'
import { logVerbs } from './functions/logs.ts'
import { recordVerbs } from './functions/records.ts'
import { redriveVerb } from './functions/redrive.ts'
import { runVerb } from './functions/run.ts'
import { JSON_NOTATION, jsonArgument } from './json-argument.ts'
import { serviceClient } from './settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from './verb.ts'

export function functionVerbs(program: Command): void {
  const functions = program.command('fn').description('Manage functions.')
  initVerb(functions)
  deployVerbs(functions)
  invokeVerb(functions)
  runVerb(functions)
  logVerbs(functions)
  recordVerbs(functions)
  aliasVerbs(functions, 'function', functionClient)
  redriveVerb(functions)
}

/** Prints the result alone on stdout, and the lines of a failed run on stderr. */
async function invoke(name: string, options: WorkspaceOption & { input: string }): Promise<number> {
  const client = await serviceClient(options.workspace)
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

function invokeVerb(functions: Command): void {
  addVerb(
    functions,
    'invoke <name>',
    'Invoke a function with TENON_SERVICE_KEY and print its result.',
    invoke,
    [
      ['--input <json>', `Argument of the function: ${JSON_NOTATION}.`, '{}'],
      [WORKSPACE[0], 'Workspace that the key must belong to. Default: TENON_WORKSPACE_ID.'],
    ],
  )
}
