#!/usr/bin/env node
/** The door of every command: makes a bare checkout able to run it, then hands over. Node's own modules only. */

import { spawn } from 'node:child_process'
import { chdir } from 'node:process'
import { pathToFileURL } from 'node:url'
import { packedCommand } from './build.mjs'
import { runChecks } from './check.mjs'
import { fetchBinaries, InstallFailed, installPackages, linkCommand } from './install.mjs'
import { isNode, NODE, PROJECT_DIR, say } from './project.mjs'

/** Node that can install the packages. They contain the Node that runs everything else (`NODE`). */
const OLDEST_NODE = 20
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }

/** What a verb runs with node; any other verb belongs to src/cli. */
const PROGRAMS = /** @type {Readonly<Record<string, readonly string[]>>} */ ({
  test: ['node_modules/vitest/vitest.mjs', 'run'],
  'test:keycloak': ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.keycloak.config.ts'],
  'test:jq': ['test/jq/score.ts'],
  'test:ows': ['test/ows/score.ts'],
  'test:ctk': ['test/ows/ctk.ts'],
  'test:fuzz': ['test/fuzz/main.ts'],
  'test:soak': ['test/soak/main.ts'],
  bench: ['bench/main.ts'],
})
const NEED_SERVERS = ['up', 'test', 'test:keycloak', 'test:fuzz', 'test:soak']

await main(process.argv.slice(2))

/** @param {readonly string[]} argv */
async function main(argv) {
  const [major = 0] = process.versions.node.split('.').map(Number)
  if (major < OLDEST_NODE)
    return fail(`Node ${OLDEST_NODE} or later is needed to install Tenon; this is ${process.versions.node}.`)
  const callerDir = whereCalled()
  chdir(PROJECT_DIR)
  const [verb, ...args] = argv
  try {
    const fetched = verb !== undefined && NEED_SERVERS.includes(verb) ? fetchBinaries() : undefined
    await installPackages()
    linkCommand()
    await fetched
  } catch (error) {
    if (error instanceof InstallFailed) return fail(error.message)
    throw error
  }
  if (verb === 'check') {
    process.exitCode = await runChecks()
    return
  }
  const own = verb === undefined ? undefined : PROGRAMS[verb]
  const packed = own === undefined ? packedCommand(verb) : undefined
  if (packed !== undefined && isNode(process.execPath)) {
    process.env['TENON_CALLER_CWD'] = callerDir
    await import(pathToFileURL(packed).href)
    return
  }
  const program = own === undefined ? [packed ?? 'src/cli/main.ts', ...argv] : [...own, ...args]
  await handOver(program, { TENON_CALLER_CWD: callerDir })
}

/** npm changes to the project's folder and tells where it was called; a path argument means the latter. */
function whereCalled() {
  const { INIT_CWD: initial, npm_lifecycle_event: script } = process.env
  return script !== undefined && initial !== undefined && process.cwd() === PROJECT_DIR
    ? initial
    : process.cwd()
}

/**
 * Runs a program in our place: same terminal, same signals, same end.
 * @param {readonly string[]} program
 * @param {Record<string, string>} env
 */
async function handOver(program, env) {
  const child = spawn(NODE, program, { stdio: 'inherit', env: { ...process.env, ...env } })
  for (const signal of /** @type {const} */ (['SIGTERM', 'SIGHUP']))
    process.on(signal, () => child.kill(signal))
  // A terminal sends Ctrl-C to the child itself; twice would mean "at once".
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'))
  const [code, signal] = await new Promise((resolve) => {
    child.once('error', (error) => {
      say(error.message)
      resolve([1, null])
    })
    child.once('exit', (...end) => resolve(end))
  })
  process.exit(code ?? 128 + (SIGNAL_NUMBERS[/** @type {keyof typeof SIGNAL_NUMBERS} */ (signal)] ?? 9))
}

/** @param {string} message */
function fail(message) {
  say(message)
  // A download may still be under way.
  process.exit(1)
}
