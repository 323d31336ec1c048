/** `tenon flow validate|graph`: what can be said of a definition without running it. */

import type { Command } from 'commander'
import { type ApiClient, ApiError } from '../client.ts'
import { flowsClient, readCallerFile } from '../settings.ts'
import { printJson, verb, WORKSPACE } from '../verb.ts'
import { type Fault, paint, printFaults, printWarnings } from './diagnostics.ts'

interface Options {
  readonly workspace?: string
  readonly offline?: boolean
}

const OFFLINE = ['--offline', 'compile here, without a server'] as const

async function compilerFor({ offline, workspace }: Options): Promise<Compiler> {
  if (offline) return (await import('../stack/local-compiler.ts')).localCompiler
  const { client, base } = await flowsClient(workspace)
  return remoteCompiler(client, base)
}

/** Prints every fault and every warning of every file. @returns the exit code: 1 where one is not valid */
async function validate(files: readonly string[], options: Options & { json?: boolean }): Promise<number> {
  const compiler = await compilerFor(options)
  const results = []
  for (const file of files) {
    const { faults, warnings } = await compiler.validate(await readCallerFile(file))
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
  const drawn = await compiler.graph(await readCallerFile(file))
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

/** A flow as a picture; `mermaid` is text for Mermaid. */
interface Drawn {
  readonly mermaid: string
  readonly nodes: readonly object[]
  readonly edges: readonly object[]
}

/** There are no faults where the definition is valid; warnings stop nothing. */
interface Validated {
  readonly faults: readonly Fault[]
  readonly warnings: readonly Fault[]
}

interface Compiler {
  validate(source: string): Promise<Validated>
  /** @returns the picture, or all faults */
  graph(source: string): Promise<Drawn | readonly Fault[]>
}

/** The platform's own. @param base path of a workspace's flows */
function remoteCompiler(client: ApiClient, base: string): Compiler {
  return {
    async validate(source) {
      const { faults, warnings } = await client.post<Validated>(`${base}/validate`, source)
      return { faults, warnings }
    },
    async graph(source) {
      try {
        return await client.post<Drawn>(`${base}/graph`, source)
      } catch (error) {
        return faultsOf(error)
      }
    },
  }
}

/** The faults of a definition that was refused. @throws the error, where it says something else */
export function faultsOf(error: unknown): readonly Fault[] {
  if (!(error instanceof ApiError) || !Array.isArray(error.problem['faults'])) throw error
  return error.problem['faults'] as Fault[]
}
