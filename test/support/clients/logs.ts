/** Reads the logs of a platform. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** One line of a log of the platform's own processes. */
export type LogLine = Readonly<Record<string, unknown>>

/** @throws Error with the text of a line that is no JSON object with time and level */
export async function readLog(folder: string, process: 'api' | 'worker'): Promise<readonly LogLine[]> {
  const text = await readFile(join(folder, `${process}.log`), 'utf8')
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => parse(line, process))
}

function parse(text: string, process: string): LogLine {
  const line: LogLine = text.startsWith('{') ? JSON.parse(text) : {}
  if (typeof line['level'] === 'number' && !Number.isNaN(Date.parse(String(line['time'])))) return line
  throw new Error(`${process}.log has a line that is no line of the log: ${text}`)
}
