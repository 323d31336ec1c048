/** Runs the checks when API and worker start: reports them, refuses to start, or waits for a server. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Log } from '../../infra/log.ts'
import type { InstallationChecks } from './installation.ts'
import { type Checked, runChecks, type StartCheck } from './start-check.ts'

const WAIT_MS = { min: 500, max: 10_000 }

/** A process does not start: a sentence for each check that says what to do. */
export class StartRefused extends Error {
  readonly faults: readonly string[]
  constructor(wrong: readonly Checked[]) {
    const faults = wrong.map(({ check, detail }) => `${check.name}: ${detail}`)
    super(`The process does not start:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
    this.name = 'StartRefused'
    this.faults = faults
  }
}

/**
 * For the API, which may start while its servers are away. While schema or master key are wrong or unknown, it refuses requests, until
 * a check of its readiness finds both right.
 * @throws StartRefused
 */
export async function checkApi(
  checks: readonly StartCheck[],
  installation: InstallationChecks,
  log: Log,
): Promise<void> {
  installation.start()
  const report = reporter(log)
  const checked = await runChecks(checks.filter(({ isOfWorker }) => isOfWorker !== true))
  refuseStart(checked, 'api')
  report(checked)
}

interface WorkerStart<Connection> {
  readonly log: Log
  readonly signal: AbortSignal
  /** Connects to Temporal, once its check has passed. It may reject: then the checks are repeated. */
  readonly connect: () => Promise<Connection>
}

/**
 * Waits for the servers that a worker cannot be without, and says so in the log.
 * @returns the connection to Temporal; undefined if the signal aborts before
 * @throws StartRefused
 */
export async function checkWorker<Connection>(
  checks: readonly StartCheck[],
  installation: InstallationChecks,
  { log, signal, connect }: WorkerStart<Connection>,
): Promise<Connection | undefined> {
  installation.start()
  const report = reporter(log)
  let waitsFor = ''
  for (let pauseMs = WAIT_MS.min; ; pauseMs = Math.min(pauseMs * 2, WAIT_MS.max)) {
    const checked = await runChecks(checks)
    refuseStart(checked, 'worker')
    report(checked)
    if (signal.aborted) return undefined
    const before = waitsFor
    waitsFor = awaitedOf(checked)
    if (waitsFor === '') {
      const connection = await connect().catch((err: unknown) =>
        log.warn({ err }, 'connection to Temporal failed'),
      )
      if (connection !== undefined) return connection
    } else if (waitsFor !== before) log.warn({ checks: waitsFor }, 'worker waits for servers')
    await delay(pauseMs, undefined, { signal }).catch(() => {})
  }
}

/** Names of the checks whose servers do not answer, and that a worker waits for. */
const awaitedOf = (checked: readonly Checked[]): string =>
  checked
    .filter(({ check, is }) => is === 'unknown' && check.isAwaited === true)
    .map(({ check }) => check.name)
    .join(', ')

function refuseStart(checked: readonly Checked[], process: 'api' | 'worker'): void {
  const wrong = checked.filter(({ check, is }) => is === 'wrong' && check.stops.includes(process))
  if (wrong.length > 0) throw new StartRefused(wrong)
}

type Report = (checked: readonly Checked[]) => void

/** Logs each finding when it changes. */
function reporter(log: Log): Report {
  const said = new Map<string, string>()
  return (checked) => {
    for (const { check, is, detail } of checked) {
      if (said.get(check.name) === detail) continue
      said.set(check.name, detail)
      const level = is === 'wrong' ? 'error' : is === 'good' ? 'info' : 'warn'
      log[level]({ check: check.name, is }, detail)
    }
  }
}
