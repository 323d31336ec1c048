/** `tenon flow validate|graph`: what can be said of a definition without running it. */

import type { Command } from 'commander'
import { printJson, verb, WORKSPACE } from '../verb.ts'
import { type Compiler, remoteCompiler } from './compiler.ts'
import { paint, printFaults, printWarnings } from './faults.ts'
import { place, read } from './place.ts'

interface Options {
  readonly workspace?: string
  readonly offline?: boolean
}

const OFFLINE = ['--offline', 'compile here, without a server'] as const

async function compilerFor({ offline, workspace }: Options): Promise<Compiler> {
  if (offline) return (await import('../host/compiler.ts')).localCompiler
  const { client, base } = await place(workspace)
  return remoteCompiler(client, base)
}

/** Prints every fault and every warning of every file. @returns the exit code: 1 where one is not valid */
async function validate(files: readonly string[], options: Options & { json?: boolean }): Promise<number> {
  const compiler = await compilerFor(options)
  const results = []
  for (const file of files) {
    const { faults, warnings } = await compiler.validate(await read(file))
    results.push({ file, valid: faults.length === 0, faults, warnings })
  }
  if (options.json) printJson(results)
  else {
    for (const { file, valid, faults, warnings } of results) {
      printFaults(file, faults)
      printWarnings(file, warnings)
      if (valid) process.stdout.write(`${file}: ${paint('green', 'valid', process.stdout)}\n`)
    }
  }
  return results.every(({ valid }) => valid) ? 0 : 1
}

async function graph(file: string, options: Options & { format: string }): Promise<number> {
  if (options.format !== 'mermaid' && options.format !== 'json')
    throw new Error(`There is no format ${options.format}; write mermaid or json.`)
  const compiler = await compilerFor(options)
  const drawn = await compiler.graph(await read(file))
  if (!('mermaid' in drawn)) {
    printFaults(file, drawn)
    return 1
  }
  const { mermaid, ...rest } = drawn
  if (options.format === 'json') return printJson(rest)
  process.stdout.write(mermaid)
  return 0
}

export function checkVerbs(flows: Command): void {
  flows
    .command('validate <files...>')
    .description('all faults and warnings of each file: file:line:column code: message')
    .option(...WORKSPACE)
    .option(...OFFLINE)
    .option('--json', 'one JSON value: [{file, valid, faults, warnings}]')
    .action(verb(validate))
  flows
    .command('graph <file>')
    .description('draw a flow, for Mermaid or as nodes and edges with their places')
    .option(...WORKSPACE)
    .option(...OFFLINE)
    .option('--format <format>', 'mermaid or json', 'mermaid')
    .action(verb(graph))
}
