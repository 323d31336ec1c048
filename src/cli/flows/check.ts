/** `tenon flow validate|graph`: checks and draws definitions without running them. */

import type { Command } from 'commander'
import { ApiError } from '../client.ts'
import { flowsClient, readCallerFile } from '../settings.ts'
import { paint } from '../terminal.ts'
import { addVerb, type Flag, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { type Diagnostic, printDiagnostics } from './diagnostics.ts'

interface Options extends WorkspaceOption {
  readonly offline?: boolean
}

const OFFLINE: Flag = ['--offline', 'Compile on this machine, without a server.']

/** The compiler of this process, or that of the platform. */
async function compilerFor({ offline, workspace }: Options): Promise<Compiler> {
  if (offline) return (await import('../stack/local-compiler.ts')).localCompiler
  const { client, base } = await flowsClient(workspace)
  return {
    validate: (source) => client.post(`${base}/validate`, source),
    graph: (source) => client.post<Drawn>(`${base}/graph`, source).catch(diagnosticsOf),
  }
}

/** Prints all diagnostics and warnings of all files. @returns the exit code: 1 if a file is not valid */
async function validate(files: readonly string[], options: Options & { json?: boolean }): Promise<number> {
  const compiler = await compilerFor(options)
  const results = []
  for (const file of files) {
    const { diagnostics, warnings } = await compiler.validate(await readCallerFile(file))
    results.push({ file, valid: diagnostics.length === 0, diagnostics, warnings })
  }
  if (options.json) printJson(results)
  else {
    for (const { file, valid, diagnostics, warnings } of results) {
      printDiagnostics(file, diagnostics)
      printDiagnostics(file, warnings, 'warning')
      if (valid) process.stdout.write(`${file}: ${paint('green', 'valid', process.stdout)}\n`)
    }
  }
  return results.every(({ valid }) => valid) ? 0 : 1
}

async function graph(file: string, options: Options & { format: string }): Promise<number> {
  if (options.format !== 'mermaid' && options.format !== 'json')
    throw new Error(`The format ${options.format} is not known. Use mermaid or json.`)
  const compiler = await compilerFor(options)
  const drawn = await compiler.graph(await readCallerFile(file))
  if (!('mermaid' in drawn)) {
    printDiagnostics(file, drawn)
    return 1
  }
  const { mermaid, ...rest } = drawn
  if (options.format === 'json') return printJson(rest)
  process.stdout.write(mermaid)
  return 0
}

export function checkVerbs(flows: Command): void {
  addVerb(
    flows,
    'validate <files...>',
    'Validate flows. Prints each diagnostic and warning as file:line:column code: message.',
    validate,
    [WORKSPACE, OFFLINE, ['--json', 'Print one JSON value: [{file, valid, diagnostics, warnings}].']],
  )
  addVerb(
    flows,
    'graph <file>',
    'Draw a flow as a Mermaid diagram, or as JSON with nodes, edges and positions.',
    graph,
    [WORKSPACE, OFFLINE, ['--format <format>', 'Output format: mermaid or json.', 'mermaid']],
  )
}

/** A flow as a graph. `mermaid` is its source for Mermaid. */
interface Drawn {
  readonly mermaid: string
  readonly nodes: readonly object[]
  readonly edges: readonly object[]
}

/** A definition without diagnostics is valid, even with warnings. */
interface Validated {
  readonly diagnostics: readonly Diagnostic[]
  readonly warnings: readonly Diagnostic[]
}

interface Compiler {
  validate(source: string): Promise<Validated>
  /** @returns the graph, or all diagnostics */
  graph(source: string): Promise<Drawn | readonly Diagnostic[]>
}

/** The diagnostics of a rejected definition. @throws any other error */
export function diagnosticsOf(error: unknown): readonly Diagnostic[] {
  if (!(error instanceof ApiError) || !Array.isArray(error.problem['diagnostics'])) throw error
  return error.problem['diagnostics'] as Diagnostic[]
}
