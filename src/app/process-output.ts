/** Makes all output of a process lines of its log: warnings of Node, the console of libraries, and the error that ends it. */

import { format, inspect } from 'node:util'
import { ConfigError } from '../infra/config.ts'
import { type Log, openLog } from '../infra/log.ts'
import { StartRefused } from './start-checks/at-start.ts'

const CONSOLE = { debug: 'debug', log: 'info', info: 'info', warn: 'warn', error: 'error' } as const

/** To be called once, before libraries write anything. */
export function logAllOutput(log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', (err) => log.warn({ err }, 'warning of Node.js'))
  process.on('uncaughtException', (err) => {
    log.fatal({ err }, 'uncaught exception')
    process.exit(1)
  })
  for (const [method, level] of Object.entries(CONSOLE))
    console[method as keyof typeof CONSOLE] = (...args: unknown[]) => log[level](format(...args))
}

/** Ends the process with exit code 1, and a line on stderr that says why. @param name of the process @param event that failed */
export function exitWithError(name: string, error: unknown, event = 'process failed'): never {
  const log = openLog('info', name, process.stderr)
  // Errors of the settings and of the installation are sentences for operators; their stack says nothing.
  if (error instanceof ConfigError || error instanceof StartRefused)
    log.fatal({ faults: error.faults }, error.message)
  // The SDK of Temporal rejects with values that are no errors, too.
  else log.fatal({ err: error instanceof Error ? error : new Error(inspect(error)) }, event)
  process.exit(1)
}
