/** JSON log lines, each with the ids of the work that it is about. Secrets are redacted by name and by pattern; no request body is logged. */

import { type DestinationStream, type Logger, pino } from 'pino'
import { redactText } from '../core/redact.ts'
import { INFRA_LIMITS } from './limits.ts'
import { currentTrace, traceFields } from './trace-context.ts'

export type Log = Logger

/** Lines are buffered for at most a quarter of a second, and flushed at the end of the process. */
const BUFFERED = {
  minLength: 4_096,
  periodicFlush: 250,
  sync: false,
  maxLength: INFRA_LIMITS.logBufferBytesMax,
}

/** One for all logs of a process, since each has a timer. */
let output: DestinationStream | undefined

function standardOutput(): DestinationStream {
  output ??= openOutput()
  return output
}

/**
 * An output that may refuse lines for a while, such as a file on a full disk: what a process serves goes on. Lines wait as far as
 * there is room for them; when they are written, one says how many had none.
 */
function openOutput(): DestinationStream {
  const stream = pino.destination(BUFFERED)
  let lost = 0
  stream.on('error', () => {})
  stream.on('drop', () => (lost += 1))
  stream.on('write', () => {
    if (lost === 0) return
    const line = {
      level: 50,
      time: new Date().toISOString(),
      lost,
      msg: 'log lines lost: the output took none',
    }
    lost = 0
    stream.write(`${JSON.stringify(line)}\n`)
  })
  return stream
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
