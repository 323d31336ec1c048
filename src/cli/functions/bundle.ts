/** Bundles a function on the developer's machine: its files and npm packages become one ES module. */

import { readFile, stat } from 'node:fs/promises'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { type BuildFailure, type BuildOptions, build } from 'esbuild'
import { callerPath } from '../settings.ts'

export interface Bundle {
  /** By default the name of the file or the folder. */
  readonly name: string
  /** The entry file itself if it imports nothing; else the bundle. */
  readonly source: string
  /** Source map (ECMA-426) of a bundle. Its sources are relative to the folder of the entry. */
  readonly source_map?: string
  /** All files that the function is made of. */
  readonly files: readonly string[]
}

/** An error of a source as compilers print it: `file:line:column message`, on one line each. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
}

const ENTRIES = ['index.ts', 'index.js', 'main.ts', 'main.js']

/**
 * @param path a file, or a folder with `index.ts`, `index.js`, `main.ts` or `main.js`; relative to the caller
 * @throws SourceError with all errors of the sources; Error if there is no such file
 */
export async function bundleFunction(path: string): Promise<Bundle> {
  const entry = await entryOf(path)
  const folder = dirname(entry)
  const { outputFiles, metafile } = await build(optionsFor(entry)).catch((error: unknown) => {
    throw errorOf(error, folder)
  })
  const files = Object.keys(metafile.inputs).map((file) => resolve(folder, file))
  const name = nameOf(entry)
  if (files.length === 1) return { name, source: await readFile(entry, 'utf8'), files }
  const [map, code] = ['.map', '.js'].map((type) => outputFiles.find((file) => file.path.endsWith(type)))
  return { name, source: code?.text ?? '', source_map: map?.text ?? '', files }
}

/**
 * The absolute path of the file at which bundling begins.
 * @throws Error if there is none
 */
export async function entryOf(path: string): Promise<string> {
  const full = callerPath(path)
  const found = await stat(full).catch(() => undefined)
  if (found === undefined) throw new Error(`There is no file or folder ${path}.`)
  if (found.isFile()) return full
  for (const name of ENTRIES) {
    const entry = join(full, name)
    if ((await stat(entry).catch(() => undefined))?.isFile()) return entry
  }
  throw new Error(`${path} has none of ${ENTRIES.join(', ')}.`)
}

/** `greet` for `greet.ts`, and for `greet/index.ts`. */
function nameOf(entry: string): string {
  const file = basename(entry, extname(entry))
  return ENTRIES.includes(basename(entry)) ? basename(dirname(entry)) : file
}

/** For a sandbox with the globals of the web and no modules of Node.js. */
const optionsFor = (entry: string) =>
  ({
    entryPoints: [entry],
    absWorkingDir: dirname(entry),
    outfile: join(dirname(entry), 'function.js'),
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2024',
    mainFields: ['browser', 'module', 'main'],
    conditions: ['worker', 'browser'],
    external: ['tenon'],
    define: { 'process.env.NODE_ENV': '"production"' },
    sourcemap: 'external',
    sourcesContent: false,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'silent',
  }) as const satisfies BuildOptions

function errorOf(error: unknown, folder: string): unknown {
  const { errors } = (error ?? {}) as Partial<BuildFailure>
  if (!Array.isArray(errors)) return error
  const lines = errors.map(({ text, location }) => {
    if (location === null) return text
    const { file, line, column } = location
    return `${shownPath(resolve(folder, file))}:${line}:${column + 1} ${text}`
  })
  return new SourceError(lines.join('\n'))
}

/** Relative to the caller if it lies below. */
function shownPath(file: string): string {
  const path = relative(callerPath('.'), file)
  return path.startsWith('..') ? file : path
}
