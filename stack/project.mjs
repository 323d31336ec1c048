/** Paths of the checkout and of its build, and progress messages on stderr before anything is installed. */

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PROJECT_DIR = dirname(dirname(fileURLToPath(import.meta.url)))

/** The Node of package.json, which runs the product and its tools. */
export const NODE = join(PROJECT_DIR, 'node_modules/node/bin/node')

/**
 * Tells if a program is {@link NODE}.
 * @param {string} program
 */
export function isNode(program) {
  return realpathSync(program) === realpathSync(NODE)
}

const NEVER_SILENT_MS = 2_000

/**
 * Prints a message. stdout is for results.
 * @param {string} line
 */
export function say(line) {
  process.stderr.write(`${line}\n`)
}

/**
 * Runs a step, and reports it every 2 s.
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(what, work) {
  const startedAt = Date.now()
  const report = (/** @type {string} */ now) =>
    say(`tenon: ${what}: ${now} ${Math.round((Date.now() - startedAt) / 1000)} s`)
  const ticker = setInterval(() => report('for'), NEVER_SILENT_MS)
  try {
    say(`tenon: ${what} …`)
    const result = await work()
    report('done in')
    return result
  } finally {
    clearInterval(ticker)
  }
}

/** Each build has a folder here. */
export const BUILDS = join(PROJECT_DIR, 'node_modules/.cache/tenon')
/** A change in one of them needs a new build. */
const SOURCES = ['src', 'client/src', 'flows-dsl', 'package-lock.json']
/** Verbs that read files of the checkout, or start its servers. */
const UNPACKED = ['up', 'migrate', 'demo', 'build', 'doctor', 'reference', 'backup', 'restore', 'sbom']

/** Returns the folder of the build of the current sources, which may not exist yet. */
export function buildFolder() {
  const hash = createHash('sha256')
  for (const source of SOURCES) {
    for (const file of filesOf(join(PROJECT_DIR, source))) hash.update(file).update(readFileSync(file))
  }
  return join(BUILDS, hash.digest('hex').slice(0, 24))
}

/**
 * Finds the CLI as one file, which starts in a third of the time of its modules.
 * @param {string | undefined} verb
 * @returns {string | undefined} undefined if there is no build of these sources, or the verb needs the checkout
 */
export function packedCommand(verb) {
  if (verb !== undefined && UNPACKED.includes(verb)) return undefined
  const file = join(buildFolder(), 'tenon/main.mjs')
  return existsSync(file) ? file : undefined
}

/**
 * @param {string} path
 * @returns {string[]} sorted; the path itself if it is a file
 */
function filesOf(path) {
  if (path.endsWith('.json')) return [path]
  const entries = readdirSync(path, { withFileTypes: true, recursive: true })
  const files = entries.filter((entry) => entry.isFile() && /\.(ts|sql)$/.test(entry.name))
  return files.map((entry) => join(entry.parentPath, entry.name)).sort()
}
