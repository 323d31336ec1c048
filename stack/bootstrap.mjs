#!/usr/bin/env node
/** The entry point of every command: installs the packages if necessary, then runs it. Node's own modules only. */

import { execFile, spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { chdir } from 'node:process'
import { pathToFileURL } from 'node:url'
import { fetchBinaries, InstallFailed, installPackages, linkCommand } from './install.mjs'
import { isNode, NODE, PROJECT_DIR, packedCommand, say } from './project.mjs'

/** Oldest Node that can install the packages, which contain the Node that runs everything else (`NODE`). */
const OLDEST_NODE = 20
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }

/** Verbs with a program of their own; all others are verbs of src/cli. */
const PROGRAMS = /** @type {Readonly<Record<string, readonly string[]>>} */ ({
  test: ['node_modules/vitest/vitest.mjs', 'run'],
  'test:keycloak': ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.keycloak.config.ts'],
  'test:external': ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.external.config.ts'],
  'test:containers': ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.containers.config.ts'],
  'test:jq': ['test/conformance/jq/score.ts'],
  'test:ows': ['test/conformance/ows/score.ts'],
  'test:ctk': ['test/conformance/ows/ctk.ts'],
  'test:prometheus': ['test/conformance/prometheus/main.ts'],
  'test:clients': ['test/conformance/s3-clients/main.ts'],
  'test:openapi': ['test/conformance/openapi/main.ts'],
  'test:kms': ['test/conformance/kms/main.ts'],
  'test:chart': ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.chart.config.ts'],
  'test:restore': [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--config',
    'vitest.soak.config.ts',
    'test/soak/restore',
    // One measures times.
    '--no-file-parallelism',
  ],
  'test:upgrade': [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--config',
    'vitest.soak.config.ts',
    'test/soak/upgrade',
    // One measures locks.
    '--no-file-parallelism',
  ],
  'test:scale': [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--config',
    'vitest.soak.config.ts',
    'test/soak/scale',
    '--no-file-parallelism',
  ],
  'conformance:mcp': ['test/conformance/mcp/main.ts'],
  'test:fuzz': ['test/soak/fuzz/main.ts'],
  'test:mutants': ['test/soak/mutants.ts'],
  'test:soak': ['test/soak/main.ts'],
  bench: ['bench/main.ts'],
})
const NEED_SERVERS = [
  'up',
  'test',
  'test:keycloak',
  'test:external',
  'test:containers',
  'test:prometheus',
  'test:clients',
  'test:kms',
  'test:restore',
  'test:upgrade',
  'test:scale',
  'conformance:mcp',
  'test:fuzz',
  'test:mutants',
  'test:soak',
]

/** What the type checker found the last time: it checks what has changed since. */
const TYPES_FILE = 'node_modules/.cache/tenon-types.tsbuildinfo'

/** Commands of `npm run check`. */
const CHECKS = /** @type {Readonly<Record<string, readonly string[]>>} */ ({
  // Each further thread checks the types that are used everywhere once more: twice the time of the processors, and no less time.
  types: ['tsc', '-p', 'tsconfig.json', '--singleThreaded', '--incremental', '--tsBuildInfoFile', TYPES_FILE],
  style: ['biome', 'check'],
  promises: ['oxlint', '--type-aware'],
  directions: ['depcruise', 'src', 'flows-dsl', 'stack'],
  'dead code': ['knip'],
})

await main(process.argv.slice(2))

/** @param {readonly string[]} argv */
async function main(argv) {
  const [major = 0] = process.versions.node.split('.').map(Number)
  if (major < OLDEST_NODE)
    return fail(`Node ${OLDEST_NODE} or later is needed to install Tenon; this is ${process.versions.node}.`)
  const callerDir = callerFolder()
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
  await runProgram(program, { TENON_CALLER_CWD: callerDir })
}

/** npm changes to the folder of the project; paths in arguments are relative to the folder of the caller. */
function callerFolder() {
  const { INIT_CWD: initial, npm_lifecycle_event: script } = process.env
  return script !== undefined && initial !== undefined && process.cwd() === PROJECT_DIR
    ? initial
    : process.cwd()
}

/**
 * Runs a program with the same terminal and signals, and exits with its code.
 * @param {readonly string[]} program
 * @param {Record<string, string>} env
 */
async function runProgram(program, env) {
  const child = spawn(NODE, program, { stdio: 'inherit', env: { ...process.env, ...env } })
  for (const signal of /** @type {const} */ (['SIGTERM', 'SIGHUP']))
    process.on(signal, () => child.kill(signal))
  // A terminal sends Ctrl-C to the child as well; a second SIGINT would kill it.
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

/** Runs all checks of `npm run check` in parallel. @returns {Promise<number>} the exit code */
async function runChecks() {
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
