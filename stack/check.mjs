/** `npm run check`: every static check at once, each told by name; any failure fails the whole. */

import { execFile } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { PROJECT_DIR } from './project.mjs'

/** @type {Readonly<Record<string, readonly string[]>>} */
const CHECKS = {
  types: ['tsc', '-p', 'tsconfig.json'],
  style: ['biome', 'check'],
  promises: ['oxlint', '--type-aware'],
  directions: ['depcruise', 'src', 'flows-dsl', 'stack'],
  'dead code': ['knip'],
}

/** Runs all checks; returns the exit code. */
export async function runChecks() {
  const results = await Promise.all(Object.entries(CHECKS).map(([name, command]) => run(name, command)))
  const failed = results.filter((result) => !result.ok)
  for (const { name, output } of failed) console.log(`\n── ${name} ──\n${output.trim()}`)
  console.log(
    failed.length === 0 ? 'All checks passed' : `\nFailed: ${failed.map(({ name }) => name).join(', ')}`,
  )
  return failed.length === 0 ? 0 : 1
}

/**
 * @param {string} name
 * @param {readonly string[]} command
 * @returns {Promise<{ name: string, ok: boolean, output: string }>}
 */
function run(name, [program = '', ...args]) {
  const startedAt = Date.now()
  const bin = join(PROJECT_DIR, 'node_modules/.bin')
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env['PATH']}` }
  return new Promise((resolve) => {
    execFile(
      join(bin, program),
      args,
      { cwd: PROJECT_DIR, env, maxBuffer: 1 << 26 },
      (error, stdout, stderr) => {
        const seconds = ((Date.now() - startedAt) / 1000).toFixed(1)
        const missing = error?.code === 'ENOENT' ? error.message : ''
        console.log(`${error === null ? 'ok    ' : 'FAILED'} ${name} (${program}, ${seconds} s)`)
        resolve({ name, ok: error === null, output: `${stdout}${stderr}${missing}` })
      },
    )
  })
}
