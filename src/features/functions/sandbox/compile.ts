/** Compiles TypeScript to JavaScript with esbuild, in a process of its own, since a source may crash it. */

import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { LIMITS } from '../../../core/limits.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'

/** `line` and `column` count from 1. */
export interface Fault {
  readonly message: string
  readonly line: number
  readonly column: number
}

/** `exportsTool` is false only if the module has no export `tool`. */
export type Compiled =
  | { readonly code: string; readonly exportsTool: boolean; readonly faults?: never }
  | { readonly faults: readonly Fault[] }

/**
 * Without `--bundle`, esbuild opens no file. With it, `import('./etc' + x)` becomes a list of the host's files, and a
 * `sourceMappingURL` is read. Imports stay as they are; the sandbox rejects them.
 */
const ARGUMENTS = [
  ...['--format=esm', '--platform=neutral', '--target=es2024', '--tsconfig-raw={}'],
  ...['--loader=ts', '--sourcefile=function.ts', '--sourcemap=inline', '--sources-content=false'],
  // Indentation would make a deeply nested source grow with its square.
  ...['--minify-whitespace', '--charset=utf8'],
  ...['--log-level=error', `--log-limit=${LIMITS.faultsShownMax}`, '--color=false'],
]
const FAULT = /^✘ \[ERROR\] (.*)\n\n {4}function\.ts:(\d+):(\d+):/gm

/** Each holder has one compilation at a time, and all together few, so that none exceeds its time limit for the others. */
const OWN = new KeyedSemaphore(1, LIMITS.functionQueueMs)
const ALL = new KeyedSemaphore(LIMITS.functionCompilesAtOnce, LIMITS.functionQueueMs)
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
  if (exported.includes('default') || exported.includes('fetch'))
    return { code: out, exportsTool: exported.includes('tool') }
  const faults = faultsOf(err)
  if (faults.length > 0) return { faults: died ? faults.slice(0, 1) : faults }
  const message = died
    ? 'It is nested too deeply, or too large.'
    : 'It has no default export: that is the function to call. (One that serves HTTP alone exports `fetch`.)'
  return { faults: [{ message, line: 1, column: 1 }] }
}

/**
 * The names that a module exports: esbuild writes them last, as `export{handler as default,tool};`. Searched from the end,
 * since a source may repeat such a text so often that a regular expression takes seconds.
 */
export function exportedNames(code: string): string[] {
  const module = code.slice(0, code.lastIndexOf('//# sourceMappingURL='))
  const last = module.slice(module.lastIndexOf('export{'))
  const [, list = ''] = /^export\{([^{}]*)\};\s*$/.exec(last) ?? []
  return list.split(',').map((name) => name.replace(/^.* as /s, ''))
}

function faultsOf(err: string): Fault[] {
  return [...err.matchAll(FAULT)].map(([, message = '', line, column]) => ({
    message,
    line: Number(line),
    column: Number(column) + 1,
  }))
}

function esbuild(source: string): Promise<{ out: string; err: string; died: boolean }> {
  const program = createRequire(import.meta.url).resolve('esbuild/bin/esbuild')
  return new Promise((done, reject) => {
    const child = execFile(
      program,
      ARGUMENTS,
      {
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '' },
        timeout: LIMITS.functionCompileMs,
        killSignal: 'SIGKILL',
        maxBuffer: LIMITS.functionCompiledBytesMax,
      },
      (error, out, err) => {
        const missing = error?.code === 'ENOENT' || error?.code === 'EACCES'
        if (missing) reject(error)
        else done({ out, err, died: error !== null })
      },
    )
    child.stdin?.on('error', () => {})
    child.stdin?.end(source)
  })
}
