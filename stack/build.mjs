/** Knows which build belongs to these sources: what is packed is found again by what it was packed of. */

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROJECT_DIR } from './project.mjs'

/** A folder a build. */
export const BUILDS = join(PROJECT_DIR, 'node_modules/.cache/tenon')
/** A change in any of these makes a new build. */
const SOURCES = ['src', 'flows-dsl', 'package-lock.json']
/** Verbs that read files of the checkout, or start servers of it. */
const UNPACKED = ['up', 'migrate', 'demo', 'build', 'doctor', 'reference']

/** The folder of the build of these sources, which may not be made yet. */
export function buildFolder() {
  const hash = createHash('sha256')
  for (const source of SOURCES) {
    for (const file of filesOf(join(PROJECT_DIR, source))) hash.update(file).update(readFileSync(file))
  }
  return join(BUILDS, hash.digest('hex').slice(0, 24))
}

/**
 * The program of a verb in one file, which starts in a third of the time that its modules take.
 * @param {string | undefined} verb
 * @returns {string | undefined} undefined where these sources are not packed, or the verb needs them
 */
export function packedCommand(verb) {
  if (verb !== undefined && UNPACKED.includes(verb)) return undefined
  const file = join(buildFolder(), 'tenon/main.mjs')
  return existsSync(file) ? file : undefined
}

/**
 * @param {string} path
 * @returns {string[]} in order; the path itself where it is a file
 */
function filesOf(path) {
  if (path.endsWith('.json')) return [path]
  const entries = readdirSync(path, { withFileTypes: true, recursive: true })
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  return files.map((entry) => join(entry.parentPath, entry.name)).sort()
}
