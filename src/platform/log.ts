/** JSON log lines. Secrets are redacted by name and by look; nothing of a request's body is logged. */

import { type DestinationStream, type Logger, pino } from 'pino'
import { redactText } from '../core/redact.ts'

export type Log = Logger

/** Lines are written together, a quarter of a second late at most, and at the end of the process. */
const TOGETHER = { minLength: 4_096, periodicFlush: 250, sync: false }

/** @param into where lines go; the process's output where absent */
export function openLog(level: string, process: string, into?: DestinationStream): Log {
  const options = {
    level,
    base: { process },
    timestamp: pino.stdTimeFunctions.isoTime,
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
    // Whatever wrote it, and wherever in the line it stands.
    hooks: { streamWrite: redactText },
  }
  return pino(options, into ?? pino.destination(TOGETHER))
}

/**
 * The same log for lines whose members the platform itself names, none of them after a secret: nobody looks for such
 * names, which takes most of what a line costs. What looks like a secret is still taken out.
 */
export function plainLines(log: Log): Log {
  return log.child({}, { redact: [] })
}
