/** Bundles a function on the developer's machine: its files and npm packages become one ES module. */

import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
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
  /** True if it exports `config`, its whole configuration. */
  readonly hasConfig: boolean
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
  const entry = await requireEntry(path)
  const folder = dirname(entry)
  const { outputFiles, metafile } = await build(optionsFor(entry)).catch((error: unknown) => {
    throw errorOf(error, folder)
  })
  const files = Object.keys(metafile.inputs).map((file) => resolve(folder, file))
  const name = nameOf(entry)
  const hasConfig = Object.values(metafile.outputs).some((output) => output.exports.includes('config'))
  if (files.length === 1) return { name, source: await readFile(entry, 'utf8'), hasConfig, files }
  const [map, code] = ['.map', '.js'].map((type) => outputFiles.find((file) => file.path.endsWith(type)))
  return { name, source: code?.text ?? '', source_map: map?.text ?? '', hasConfig, files }
}

/**
 * The absolute path of the file at which bundling begins.
 * @throws Error if there is none
 */
export async function requireEntry(path: string): Promise<string> {
  const full = callerPath(path)
  const found = await stat(full).catch(() => undefined)
  if (found === undefined) throw new Error(`There is no file or folder ${path}.`)
  if (found.isFile()) return full
  for (const name of ENTRIES) {
    const entry = join(full, name)
    if ((await stat(entry).catch(() => undefined))?.isFile()) return entry
  }
  throw new Error(`The folder ${path} has no entry file. Add one of ${ENTRIES.join(', ')}.`)
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
    const full = resolve(folder, file)
    return `${shownPath(full)}:${line}:${column + 1} ${explained(text, dirname(full), folder)}`
  })
  return new SourceError(lines.join('\n'))
}

/**
 * The message for an import that the bundler cannot resolve; other messages as they are.
 * @param from the folder of the importing file
 * @param folder of the entry
 */
function explained(text: string, from: string, folder: string): string {
  const [, name] = /^Could not resolve "([^"]+)"$/.exec(text) ?? []
  if (name === undefined) return text
  if (isBuiltin(name))
    return `Functions cannot import modules of Node.js such as ${name}. Use a package that runs in a browser.`
  const isOfDeno = name.startsWith('npm:')
  const [, named, version = '', path = ''] = PACKAGE.exec(isOfDeno ? name.slice('npm:'.length) : name) ?? []
  if (named === undefined || (!isOfDeno && isInstalled(named, from))) return text
  const install = `run npm install ${named}${version} in ${shownPath(folder) || '.'}`
  return isOfDeno
    ? `Write \`from '${named}${path}'\`, and ${install}.`
    : `${named} is not installed: ${install}.`
}

/** `jose`, `@scope/name@1.2/part`: name, version and path, in the characters of npm, since the message is a command. */
const PACKAGE = /^\/?((?:@[\w.~-]+\/)?[\w~-][\w.~-]*)(@[\w.~^-]+)?(\/[\w./~-]+)?$/

/** True if a folder above has the package, which then has another fault, such as a path that it does not export. */
function isInstalled(name: string, from: string): boolean {
  if (existsSync(join(from, 'node_modules', name))) return true
  return dirname(from) !== from && isInstalled(name, dirname(from))
}

/** Relative to the caller if it lies below. */
function shownPath(file: string): string {
  const path = relative(callerPath('.'), file)
  return path.startsWith('..') ? file : path
}
