/** JSON log lines, each with the ids of the work that it is about. Secrets are redacted by name and by pattern; no request body is logged. */

import { type DestinationStream, type Logger, pino } from 'pino'
import { redactText } from '../core/redact.ts'
import { currentTrace, traceFields } from './trace-context.ts'

export type Log = Logger

/** Lines are buffered for at most a quarter of a second, and flushed at the end of the process. */
const BUFFERED = { minLength: 4_096, periodicFlush: 250, sync: false }

/** One for all logs of a process, since each has a timer. */
let output: DestinationStream | undefined

function standardOutput(): DestinationStream {
  output ??= pino.destination(BUFFERED)
  return output
}

/** @param into the process's output by default */
export function openLog(level: string, process: string, into?: DestinationStream): Log {
  const options = {
    level,
    base: { process },
    timestamp: pino.stdTimeFunctions.isoTime,
    mixin: () => traceFields(currentTrace()),
    redact: {
      paths: [
        '*.authorization',
        '*.apikey',
        '*["x-api-key"]',
        '*["x-gateway-secret"]',
        '*.password',
        '*.secret',
        '*.key',
      ],
      censor: '[redacted]',
    },
    // Redacts by pattern in the whole line.
    hooks: { streamWrite: redactText },
  }
  return pino(options, into ?? standardOutput())
}

/**
 * The same log for lines whose fields the platform names, none of them a secret: redaction by name, which costs most of the
 * time of a line, is off. Redaction by pattern stays on.
 */
export function plainLines(log: Log): Log {
  return log.child({}, { redact: [] })
}
