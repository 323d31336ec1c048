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

/** Steps under way, and when each began. @type {Map<string, number>} */
const underWay = new Map()
/** @type {NodeJS.Timeout | undefined} */
let ticker

/**
 * Does a step. While any lasts, one line every two seconds tells of all of them.
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(what, work) {
  const startedAt = Date.now()
  underWay.set(what, startedAt)
  ticker ??= setInterval(tick, NEVER_SILENT_MS)
  say(`tenon: ${what} …`)
  try {
    const result = await work()
    say(`tenon: ${what}: done in ${seconds(startedAt)}`)
    return result
  } catch (error) {
    say(`tenon: ${what}: failed after ${seconds(startedAt)}`)
    throw error
  } finally {
    underWay.delete(what)
    if (underWay.size === 0) {
      clearInterval(ticker)
      ticker = undefined
    }
  }
}

function tick() {
  say(`tenon: … ${[...underWay].map(([what, startedAt]) => `${what} ${seconds(startedAt)}`).join(', ')}`)
}

/** @param {number} startedAt */
function seconds(startedAt) {
  return `${Math.round((Date.now() - startedAt) / 1000)} s`
}
