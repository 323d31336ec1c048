/** JSON log lines. Credentials are redacted by name; nothing of a request's body is logged. */

import { type DestinationStream, type Logger, pino } from 'pino'

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
  }
  return pino(options, into ?? pino.destination(TOGETHER))
}
