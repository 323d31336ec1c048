/** Compiles TypeScript to JavaScript with esbuild, in a process of its own, since a source may crash it. */

import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { Position } from '../source-map.ts'

/** `line` and `column` count from 1. `file` is the name of a file of the bundle, from its source map. */
export interface Diagnostic extends Position {
  readonly message: string
}

/** The constants that deployment reads. */
const EXPORTS = ['input', 'output', 'tool', 'config'] as const
export type ExportName = (typeof EXPORTS)[number]

/** The exports that the platform calls: `default` with an input, `fetch` with an HTTP request. */
const ENTRY_POINTS = ['default', 'fetch'] as const
export type EntryPoint = (typeof ENTRY_POINTS)[number]

/**
 * `exported` and `entryPoints`: those of these names that the module exports. `mayImport` is false only if it imports nothing.
 */
export type Compiled =
  | {
      readonly code: string
      readonly exported: readonly ExportName[]
      readonly entryPoints: readonly EntryPoint[]
      readonly mayImport: boolean
      readonly diagnostics?: never
    }
  | { readonly diagnostics: readonly Diagnostic[] }

/**
 * Without `--bundle`, esbuild opens no file. With it, `import('./etc' + x)` becomes a list of the host's files, and a
 * `sourceMappingURL` is read. Imports stay as they are; deployment refuses those with a literal, and the sandbox all others.
 */
const ARGUMENTS = [
  ...['--format=esm', '--platform=neutral', '--target=es2024', '--tsconfig-raw={}'],
  ...['--loader=ts', '--sourcefile=function.ts', '--sourcemap=inline', '--sources-content=false'],
  // Indentation would make a deeply nested source grow with its square.
  ...['--minify-whitespace', '--charset=utf8'],
  ...['--log-level=error', `--log-limit=${CORE_LIMITS.diagnosticsReturnedMax}`, '--color=false'],
]
const { cpuSeconds, memoryMb, collectMb } = FUNCTION_LIMITS.compiler
/** Limits of memory that is written to, in KiB, and of CPU time. A shell that knows no such limit compiles without it. */
const BOUNDED = `ulimit -d ${memoryMb * 1_024} 2>/dev/null; ulimit -t ${cpuSeconds}; exec "$0" "$@"`
const FAULT = /^✘ \[ERROR\] (.*)\n\n {4}function\.ts:(\d+):(\d+):/gm

/** Each holder has one compilation at a time, and all together few, so that none exceeds its time limit for the others. */
const OWN = new KeyedSemaphore(1, FUNCTION_LIMITS.queueMs)
const ALL = new KeyedSemaphore(FUNCTION_LIMITS.compilesMax, FUNCTION_LIMITS.queueMs)
const BUSY = 'Other functions are being compiled.'

/**
 * @param holder the tenant, or the subject of an operator, whose concurrent compilations are limited
 * @returns the code with an inline source map, or the errors of the source
 * @throws Problem `overloaded` if it has to wait too long
 */
export async function compileFunction(source: string, holder: string): Promise<Compiled> {
  const releaseOwn = await OWN.acquire(holder, BUSY)
  try {
    const releaseAll = await ALL.acquire('all', BUSY)
    return await compiled(source).finally(releaseAll)
  } finally {
    releaseOwn()
  }
}

async function compiled(source: string): Promise<Compiled> {
  const { out, err, died } = await esbuild(source)
  const exported = died ? [] : exportedNames(out)
  const entryPoints = ENTRY_POINTS.filter((name) => exported.includes(name))
  if (entryPoints.length > 0)
    return {
      code: out,
      entryPoints,
      exported: EXPORTS.filter((name) => exported.includes(name)),
      mayImport: /\bimport\b|\bfrom\s*["'`]/.test(out),
    }
  const diagnostics = parseDiagnostics(err)
  if (diagnostics.length > 0) return { diagnostics: died ? diagnostics.slice(0, 1) : diagnostics }
  const message = died
    ? 'The source is nested too deeply, or too large.'
    : 'The module has no default export, which is the function to call. (A function that serves only HTTP exports `fetch`.)'
  return { diagnostics: [{ message, line: 1, column: 1 }] }
}

/**
 * The names that a module exports: esbuild writes them last, as `export{handler as default,tool};`. Searched from the end,
 * since a source may repeat such a text so often that a regular expression takes seconds.
 */
function exportedNames(code: string): string[] {
  const at = code.lastIndexOf('//# sourceMappingURL=')
  const module = at < 0 ? code : code.slice(0, at)
  const last = module.slice(module.lastIndexOf('export{'))
  const [, list = ''] = /^export\{([^{}]*)\};\s*$/.exec(last) ?? []
  return list.split(',').map((name) => name.replace(/^.* as /s, ''))
}

function parseDiagnostics(err: string): Diagnostic[] {
  return [...err.matchAll(FAULT)].map(([, message = '', line, column]) => ({
    message,
    line: Number(line),
    column: Number(column) + 1,
  }))
}

/** Exit codes of the shell. */
const [NOT_EXECUTABLE, NOT_FOUND] = [126, 127]

function esbuild(source: string): Promise<{ out: string; err: string; died: boolean }> {
  const program = createRequire(import.meta.url).resolve('esbuild/bin/esbuild')
  return new Promise((done, reject) => {
    const child = execFile(
      '/bin/sh',
      ['-c', BOUNDED, program, ...ARGUMENTS],
      {
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '', GOMEMLIMIT: `${collectMb}MiB` },
        timeout: FUNCTION_LIMITS.compileMs,
        killSignal: 'SIGKILL',
        maxBuffer: FUNCTION_LIMITS.compiledBytesMax,
      },
      (error, out, err) => {
        const missing = [NOT_FOUND, NOT_EXECUTABLE, 'ENOENT', 'EACCES'].includes(error?.code ?? 0)
        if (missing) reject(error)
        else done({ out, err, died: error !== null })
      },
    )
    child.stdin?.on('error', () => {})
    child.stdin?.end(source)
  })
}
