/** `tenon fn run`: runs a function on this machine against the running platform, without deploying it. */

import type { Command } from 'commander'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import { serviceClient } from '../settings.ts'
import { addVerb, printJson } from '../verb.ts'
import { bundleFunction } from './bundle.ts'

interface RunOptions {
  readonly input: string
  readonly config: string
}

/** Prints the result alone on stdout, and on stderr what the code prints. */
async function run(path: string, options: RunOptions): Promise<number> {
  const { runLocally } = await import('../stack/run-function.ts')
  try {
    const result = await runLocally({
      bundle: await bundleFunction(path),
      input: (await jsonArgument(options.input, 'The input')) as Json,
      config: await jsonArgument(options.config, 'The configuration'),
      client: await serviceClient(),
      log: ({ level, text }) => process.stderr.write(`| ${level.padEnd(5)} ${text}\n`),
    })
    return printJson(result)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const { file, line, column } = Object(error.members['error']) as Record<string, unknown>
    const place = line === undefined ? '' : ` at ${file ?? path}:${line}:${column}`
    throw new Error(`${error.code}${place}: ${error.detail ?? error.message}`)
  }
}

export function runVerb(functions: Command): void {
  addVerb(
    functions,
    'run <path>',
    'Run a file or a folder on this machine in the sandbox of functions. It calls the platform with TENON_SERVICE_KEY, and reads secrets from environment variables.',
    run,
    [
      ['--input <json>', `Argument of the function: ${JSON_NOTATION}.`, '{}'],
      ['--config <json>', `Members of the configuration: ${JSON_NOTATION}.`, '{}'],
    ],
  )
}
