/** Where the checkout is, and how its commands talk to a person before anything is installed: on stderr. */

import { realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PROJECT_DIR = dirname(dirname(fileURLToPath(import.meta.url)))

/** The Node that runs the product and its tools, installed as a package: whatever Node the machine has. */
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
 * A line for the person; stdout belongs to results.
 * @param {string} line
 */
export function say(line) {
  process.stderr.write(`${line}\n`)
}

/**
 * Does a step. While it lasts, a line every two seconds tells of it.
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(what, work) {
  const startedAt = Date.now()
  const tell = (/** @type {string} */ now) =>
    say(`tenon: ${what}: ${now} ${Math.round((Date.now() - startedAt) / 1000)} s`)
  const ticker = setInterval(() => tell('for'), NEVER_SILENT_MS)
  try {
    say(`tenon: ${what} …`)
    const result = await work()
    tell('done in')
    return result
  } finally {
    clearInterval(ticker)
  }
}
