/**
 * Runs schemathesis (PyPI), which generates requests from the OpenAPI document, against a running platform.
 */

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const VERSION = '4.32.5'
const INSTALL_MS = 300_000

const execute = promisify(execFile)

/** A kind of caller, as headers. */
export interface FuzzCaller {
  readonly name: string
  readonly headers: Readonly<Record<string, string>>
}

/** Existing things, so that requests get past the first look-up. */
export interface FuzzTargets {
  readonly workspaceId: string
  readonly bucket: string
  readonly collection: string
  readonly documentId: string
  readonly functionName: string
  readonly flow: string
  readonly executionId: string
}

export interface FuzzRun {
  readonly url: string
  readonly caller: FuzzCaller
  readonly targets: FuzzTargets
  /** Names of the operations to fuzz; all by default. */
  readonly operations?: readonly string[]
  readonly seed: number
  /** `coverage` makes requests for each constraint of the document, `fuzzing` random ones. */
  readonly phases: readonly ('examples' | 'coverage' | 'fuzzing')[]
  /** Random test cases for each operation, at most. */
  readonly examples: number
  readonly timeoutMs: number
  /** Folder for configuration and reports. */
  readonly dir: string
}

export interface FuzzResult {
  readonly caller: string
  readonly seed: number
  readonly cases: number
  /** The part of the report about replies of 500 and above; empty if there were none. */
  readonly serverErrors: string
  /** Reason for which the run did not complete. */
  readonly complaint: string | undefined
}

/**
 * Installs schemathesis into a virtual environment in the user's cache, once. @returns the path of the
 * program, or the reason why it is not available
 */
export async function schemathesis(): Promise<{ path: string } | { reason: string }> {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const dir = join(cache, 'tenon', `schemathesis-${VERSION}`)
  const path = join(dir, 'bin', 'schemathesis')
  const installed = join(dir, 'installed')
  if (existsSync(installed)) return { path }
  try {
    await rm(dir, { recursive: true, force: true })
    await mkdir(dir, { recursive: true })
    await execute('python3', ['-m', 'venv', dir], { timeout: INSTALL_MS })
    const install = ['install', '--quiet', '--disable-pip-version-check', `schemathesis==${VERSION}`]
    await execute(join(dir, 'bin', 'pip'), install, { timeout: INSTALL_MS })
    await writeFile(installed, '')
    return { path }
  } catch (error) {
    return { reason: `schemathesis cannot be installed: ${String(error).split('\n')[0]}` }
  }
}

/**
 * Operations left out: a stream has no end, others would delete what the rest needs (the caller's key, the
 * signing keys, the targets), and schemathesis cannot write NDJSON.
 */
const EXCLUDED =
  '/v1/events/subscribe|/executions/\\{id\\}/events|/v1/issuer|/suspend$|/rotate$|/import$|/rotate-secret$'

/** Fuzzes the operations of the OpenAPI document as a caller. The seed makes the requests repeatable. */
export async function fuzz(path: string, run: FuzzRun): Promise<FuzzResult> {
  const { url, caller, seed, phases, examples, timeoutMs, dir } = run
  const config = join(dir, `${caller.name}-${seed}.toml`)
  await writeFile(config, configOf(run.targets))
  const args = [
    ...['--config-file', config, 'run', `${url}/openapi.json`, '--url', url],
    ...['--checks', 'not_a_server_error', '--phases', phases.join(), '--mode', 'all'],
    ...['--seed', String(seed), '--max-examples', String(examples), '--workers', '2', '--no-shrink'],
    ...['--continue-on-failure', '--request-timeout', '30', '--generation-database', 'none'],
    ...['--warnings', 'off', '--suppress-health-check', 'all', '--exclude-path-regex', EXCLUDED],
    ...(run.operations?.flatMap((name) => ['--include-operation-id', name]) ?? []),
    ...Object.entries(caller.headers).flatMap(([name, value]) => ['--header', `${name}:${value}`]),
  ]
  const options = { cwd: dir, timeout: timeoutMs, maxBuffer: 1 << 28, env: { ...process.env, NO_COLOR: '1' } }
  const ended = await execute(path, args, options).catch(
    (error: { stdout?: string; killed?: boolean }) => error,
  )
  const report = ended.stdout ?? ''
  await writeFile(join(dir, `${caller.name}-${seed}.txt`), report)
  const cases = Number(/^\s*(\d+) generated/m.exec(report)?.[1] ?? 0)
  const serverErrors = /=+ FAILURES =+[\s\S]*?(?=\n=+ [A-Z ]+ =+)/.exec(report)?.[0] ?? ''
  const isWhole = cases > 0 && /^Seed: /m.test(report)
  return {
    caller: caller.name,
    seed,
    cases,
    serverErrors,
    complaint: isWhole ? undefined : report.slice(-2_000),
  }
}

function configOf(targets: FuzzTargets): string {
  const { workspaceId, bucket, collection, documentId, functionName, flow, executionId } = targets
  const parameters = { ws: workspaceId, name: collection, flow, bucket }
  const ids = [
    ['/executions/', executionId],
    ['/documents/', documentId],
    ['/functions/', functionName],
  ]
  const text = (value: string | undefined) => JSON.stringify(value)
  return [
    '[parameters]',
    ...Object.entries(parameters).map(([name, value]) => `"path.${name}" = ${text(value)}`),
    ...ids.map(
      ([path, id]) =>
        `\n[[operations]]\ninclude-path-regex = ${text(path)}\nparameters = { "path.id" = ${text(id)} }`,
    ),
    '',
  ].join('\n')
}
