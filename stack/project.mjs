/** Where the checkout is, and how its commands talk to a person before anything is installed: on stderr. */

import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PROJECT_DIR = dirname(dirname(fileURLToPath(import.meta.url)))

const NEVER_SILENT_MS = 2_000

/**
 * A line for the person; stdout belongs to results.
 * @param {string} line
 */
export function say(line) {
  process.stderr.write(`${line}\n`)
}

/**
 * Does a step, telling of it again every two seconds.
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(what, work) {
  const startedAt = Date.now()
  const seconds = () => Math.round((Date.now() - startedAt) / 1000)
  say(`tenon: ${what} …`)
  const timer = setInterval(() => say(`tenon: ${what} … ${seconds()} s`), NEVER_SILENT_MS)
  try {
    const result = await work()
    say(`tenon: ${what}: done in ${seconds()} s`)
    return result
  } catch (error) {
    say(`tenon: ${what}: failed after ${seconds()} s`)
    throw error
  } finally {
    clearInterval(timer)
  }
}
