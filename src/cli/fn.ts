/** `tenon fn deploy|invoke`: deploys TypeScript functions and calls them. */

import { basename } from 'node:path'
import type { Command } from 'commander'
import { ApiError } from './client.ts'
import { JSON_NOTATION, jsonArgument } from './json-argument.ts'
import { readCallerFile, serviceClient, workspaceClient } from './settings.ts'
import { addVerb, printJson, WORKSPACE } from './verb.ts'

interface Deployed {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly sha256: string
}

interface Fault {
  readonly message: string
  readonly line: number
  readonly column: number
}

/** Deploys a file; the default name of the function is that of the file. @returns the exit code */
async function deploy(file: string, options: { name?: string; workspace?: string }): Promise<number> {
  const name = options.name ?? basename(file).replace(/\.[a-z]+$/i, '')
  const source = await readCallerFile(file)
  try {
    const { client, workspace_id } = await workspaceClient(options.workspace)
    const made = await client.post<Deployed>('/v1/functions', { workspace_id, name, source })
    process.stdout.write(`${made.name} v${made.version} ${made.sha256.slice(0, 12)} (${made.id})\n`)
    return 0
  } catch (error) {
    if (!(error instanceof ApiError) || error.problem['faults'] === undefined) throw error
    for (const { line, column, message } of error.problem['faults'] as Fault[])
      process.stderr.write(`${file}:${line}:${column} ${message}\n`)
    return 1
  }
}

/** Invokes a function with the service key; prints its result alone on stdout, and its logs on stderr. */
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

export function functionVerbs(program: Command): void {
  const functions = program.command('fn').description('functions')
  addVerb(functions, 'deploy <file>', 'deploy a TypeScript file as the next version of a function', deploy, [
    ['--name <name>', 'default: the name of the file'],
    WORKSPACE,
  ])
  addVerb(
    functions,
    'invoke <name>',
    'invoke a function with TENON_SERVICE_KEY and print its result',
    invoke,
    [['--input <json>', `argument of the function: ${JSON_NOTATION}`, '{}']],
  )
}
