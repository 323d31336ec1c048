/** JSON log lines. Credentials are redacted by name; nothing of a request's body is logged. */

import { type Logger, pino } from 'pino'

export type Log = Logger

export function openLog(level: string, process: string): Log {
  return pino({
    level,
    base: { process },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: ['*.authorization', '*.apikey', '*["x-api-key"]', '*.password', '*.secret', '*.key'],
      censor: '[redacted]',
    },
  })
}
